// SPDX-License-Identifier: Apache-2.0
//
// soxr.soxr_ext on <fastdl/nanobind.h>: sample rates of any tensor, answers in its framework.
#define FASTDL_IMPLEMENTATION
#include <fastdl/nanobind.h>

#include <nanobind/nanobind.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "csoxr_version.h"
#include <soxr.h>

namespace nb = nanobind;

namespace
{
template <typename T>
constexpr soxr_datatype_t interleaved = std::is_same_v<T, float>     ? SOXR_FLOAT32_I
                                        : std::is_same_v<T, double>  ? SOXR_FLOAT64_I
                                        : std::is_same_v<T, int32_t> ? SOXR_INT32_I
                                                                     : SOXR_INT16_I;
template <typename T> constexpr auto split = soxr_datatype_t(interleaved<T> | SOXR_SPLIT);

// A row for each frame, a column for each channel.
template <typename T> using Columns = fastdl::tensor<const T, fastdl::ndim<2>>;
template <typename T>
using Rows = fastdl::tensor<const T, fastdl::ndim<2>, fastdl::c_contiguous, fastdl::copied>;

void check(soxr_error_t error)
{
    if (error != nullptr)
        throw std::runtime_error(error);
}

// What was computed, in the library of the argument.
template <typename T, typename X> fastdl::owned<T> result(const std::vector<T> &y, const X &x)
{
    const int64_t channels = x.shape(1);
    auto made = fastdl::empty<T>({int64_t(y.size()) / channels, channels}, x);
    std::copy(y.begin(), y.end(), made.data());
    return made;
}

// A resampler of libsoxr, whose output grows as needed.
class Resampler
{
    std::unique_ptr<soxr, void (*)(soxr_t)> soxr_{nullptr, soxr_delete};
    double ratio_; // of frames that come out to frames that go in

  public:
    const double in, out;
    const unsigned channels;

    Resampler(double in_rate, double out_rate, unsigned count, soxr_datatype_t from,
              soxr_datatype_t to, unsigned long quality, bool variable = false)
        : ratio_(out_rate / in_rate), in(in_rate), out(out_rate), channels(count)
    {
        soxr_error_t error = nullptr;
        const soxr_io_spec_t types = soxr_io_spec(from, to);
        const soxr_quality_spec_t recipe = soxr_quality_spec(quality, variable ? SOXR_VR : 0);
        soxr_.reset(soxr_create(in, out, count, &error, &types, &recipe, nullptr));
        check(error);
    }
    soxr_t get() const
    {
        return soxr_.get();
    }
    // Appends to y what comes out for all frames of a tensor, which `input(i)` has from i on.
    template <typename T, typename F> void put(std::size_t frames, F &&input, std::vector<T> &y)
    {
        const auto portion =
            std::size_t(std::max(1000., 48000 * in / out)); // many at once are slow
        for (std::size_t i = 0; i < frames; i += portion)
            process(input(i), std::min(portion, frames - i), y);
    }
    template <typename T> void finish(std::vector<T> &y)
    {
        process(nullptr, 0, y);
    }
    void set_io_ratio(double io_ratio, std::size_t slew)
    {
        check(soxr_set_io_ratio(get(), io_ratio, slew));
        ratio_ = std::max(ratio_, 1 / io_ratio);
    }

  private:
    template <typename T> void process(soxr_in_t input, std::size_t frames, std::vector<T> &y)
    {
        std::size_t done = y.size(), room = 0, made = 0;
        do {
            room = std::size_t(soxr_delay(get()) + double(frames) * ratio_) + 2;
            y.resize(done + room * channels);
            check(soxr_process(get(), input, frames, nullptr, &y[done], room, &made));
            done += made * channels;
            frames = 0; // the input is taken, and there may be more output
        } while (made == room);
        y.resize(done);
    }
};

class Stream : public Resampler
{
  public:
    const soxr_datatype_t type;
    bool ended = false;

    Stream(double in, double out, unsigned channels, soxr_datatype_t type_, unsigned long quality,
           bool variable)
        : Resampler(in, out, channels, type_, type_, quality, variable), type(type_)
    {
    }
    template <typename T> fastdl::owned<T> process(const Rows<T> &x, bool last)
    {
        if (ended)
            throw std::runtime_error("Input after last input");
        if (x.shape(1) != channels)
            throw std::invalid_argument("Channel num mismatch");
        if (interleaved<T> != type)
            throw nb::type_error("Data type mismatch");
        std::vector<T> y;
        {
            nb::gil_scoped_release release;
            put(std::size_t(x.shape(0)), [&](auto i) { return x.data() + i * channels; }, y);
            if (last)
                finish(y);
            ended = last;
        }
        return result(y, x);
    }
    void clear()
    {
        check(soxr_clear(get()));
        ended = false;
    }
};

template <typename T>
fastdl::owned<T> of_rows(double in, double out, const Rows<T> &x, unsigned long quality)
{
    const auto channels = unsigned(x.shape(1));
    std::vector<T> y;
    {
        nb::gil_scoped_release release;
        Resampler made(in, out, channels, interleaved<T>, interleaved<T>, quality);
        made.put(std::size_t(x.shape(0)), [&](auto i) { return x.data() + i * channels; }, y);
        made.finish(y);
    }
    return result(y, x);
}

template <typename T>
fastdl::owned<T> of_columns(double in, double out, const Columns<T> &x, unsigned long quality)
{
    const auto channels = unsigned(x.shape(1));
    std::vector<T> y;
    if (x.shape(0) > 1 && x.stride(0) != 1)
        throw std::invalid_argument("Data not contiguous");
    {
        nb::gil_scoped_release release;
        Resampler made(in, out, channels, split<T>, interleaved<T>, quality);
        std::vector<const T *> parts(channels);
        const auto input = [&](std::size_t i) {
            for (unsigned channel = 0; channel < channels; channel++)
                parts[channel] = x.data() + channel * x.stride(1) + i;
            return parts.data();
        };
        made.put(std::size_t(x.shape(0)), input, y);
        made.finish(y);
    }
    return result(y, x);
}

// libsoxr's own function for all at once, with which soxr's tests compare.
template <typename T>
fastdl::owned<T> at_once(double in, double out, const Rows<T> &x, unsigned long quality)
{
    const auto channels = unsigned(x.shape(1));
    const auto frames = std::size_t(x.shape(0));
    const soxr_io_spec_t types = soxr_io_spec(interleaved<T>, interleaved<T>);
    const soxr_quality_spec_t recipe = soxr_quality_spec(quality, 0);
    std::vector<T> y((std::size_t(double(frames) * out / in) + 1) * channels);
    std::size_t made = 0;
    {
        nb::gil_scoped_release release;
        check(soxr_oneshot(in, out, channels, x.data(), frames, nullptr, y.data(),
                           y.size() / channels, &made, &types, &recipe, nullptr));
    }
    y.resize(made * channels);
    return result(y, x);
}

template <typename T>
void define(nb::module_ &m, nb::class_<Stream> &stream, const std::string &type)
{
    stream.def(("process_" + type).c_str(), &Stream::process<T>);
    m.def(("csoxr_divide_proc_" + type).c_str(), &of_rows<T>);
    m.def(("csoxr_split_ch_" + type).c_str(), &of_columns<T>);
    m.def(("csoxr_oneshot_" + type).c_str(), &at_once<T>);
}
} // namespace

NB_MODULE(soxr_ext, m)
{
    nb::enum_<soxr_datatype_t>(m, "soxr_datatype_t")
        .value("SOXR_FLOAT32_I", SOXR_FLOAT32_I)
        .value("SOXR_FLOAT64_I", SOXR_FLOAT64_I)
        .value("SOXR_INT32_I", SOXR_INT32_I)
        .value("SOXR_INT16_I", SOXR_INT16_I)
        .export_values();
    m.attr("QQ") = SOXR_QQ;
    m.attr("LQ") = SOXR_LQ;
    m.attr("MQ") = SOXR_MQ;
    m.attr("HQ") = SOXR_HQ;
    m.attr("VHQ") = SOXR_VHQ;
    m.def("libsoxr_version", libsoxr_version);

    nb::class_<Stream> stream(m, "CSoxr");
    stream.def(nb::init<double, double, unsigned, soxr_datatype_t, unsigned long, bool>())
        .def_ro("in_rate", &Stream::in)
        .def_ro("out_rate", &Stream::out)
        .def_ro("ntype", &Stream::type)
        .def_ro("channels", &Stream::channels)
        .def_ro("ended", &Stream::ended)
        .def("num_clips", [](const Stream &self) { return *soxr_num_clips(self.get()); })
        .def("delay", [](const Stream &self) { return soxr_delay(self.get()); })
        .def("engine", [](const Stream &self) { return soxr_engine(self.get()); })
        .def("clear", &Stream::clear)
        .def("set_io_ratio", &Stream::set_io_ratio);
    define<float>(m, stream, "float32");
    define<double>(m, stream, "float64");
    define<int32_t>(m, stream, "int32");
    define<int16_t>(m, stream, "int16");
}
