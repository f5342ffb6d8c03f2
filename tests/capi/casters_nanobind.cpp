/* SPDX-License-Identifier: Apache-2.0 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace lib = nanobind;
#define MODULE(m) NB_MODULE(casters_nanobind, m)

#include "casters.h"
