// SPDX-License-Identifier: Apache-2.0
/* A type that is a tensor to others: numpy.from_dlpack(Image(480, 640)) is a view of its pixels.
 *
 * Build:

c++ -O2 -std=c++17 -fPIC -fvisibility=hidden -shared $(python -m pybind11 --includes) \
    $(python -m fastdl --cflags) image.cpp \
    -o image$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
// [image]
#define FASTDL_IMPLEMENTATION
#include <fastdl/pybind11.h> // or <fastdl/nanobind.h>

#include <vector>

namespace py = pybind11;

struct Image {
    unsigned height, width;
    std::vector<uint8_t> pixels;

    Image(unsigned rows, unsigned columns)
        : height(rows), width(columns), pixels(std::size_t(rows) * columns)
    {
    }
};

void describe(Image &image, fastdl::description &out)
{
    out.set(image.pixels.data(), {image.height, image.width});
}

PYBIND11_MODULE(image, m)
{
    fastdl::publish<&describe>(py::class_<Image>(m, "Image").def(py::init<unsigned, unsigned>()));
}
// [/image]
