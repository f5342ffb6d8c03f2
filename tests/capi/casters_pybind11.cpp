/* SPDX-License-Identifier: Apache-2.0 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/pybind11.h>
#include <pybind11/stl.h> /* has casters for the same templates */

namespace lib = pybind11;
#define MODULE(m) PYBIND11_MODULE(casters_pybind11, m)

#include "casters.h"
