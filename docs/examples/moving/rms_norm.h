/* SPDX-License-Identifier: Apache-2.0 */

// The kernel, which knows nothing of tensors: each row of x by its root mean square, times weight.
#pragma once

#include <cmath>
#include <cstdint>

inline void rms_norm(float *out, const float *x, const float *weight, int64_t rows, int64_t columns,
                     double eps)
{
    for (int64_t i = 0; i < rows; i++, out += columns, x += columns) {
        double squares = 0;
        for (int64_t j = 0; j < columns; j++)
            squares += double(x[j]) * x[j];
        const float scale = float(1 / std::sqrt(squares / double(columns) + eps));
        for (int64_t j = 0; j < columns; j++)
            out[j] = x[j] * scale * weight[j];
    }
}
