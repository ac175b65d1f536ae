#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

namespace algebra {

template <typename T, std::size_t Rows, std::size_t Columns>
class Matrix {
  public:
    constexpr T& operator()(std::size_t r, std::size_t c) noexcept { return data_[r * Columns + c]; }
    constexpr const T& operator()(std::size_t r, std::size_t c) const noexcept { return data_[r * Columns + c]; }

    [[nodiscard]] constexpr auto transposed() const {
        Matrix<T, Columns, Rows> out;
        for (std::size_t r = 0; r < Rows; ++r)
            for (std::size_t c = 0; c < Columns; ++c) out(c, r) = (*this)(r, c);
        return out;
    }

    template <std::size_t Inner>
    friend constexpr auto operator*(const Matrix<T, Rows, Inner>& a, const Matrix<T, Inner, Columns>& b) {
        Matrix out{};
        for (std::size_t r = 0; r < Rows; ++r)
            for (std::size_t k = 0; k < Inner; ++k)
                for (std::size_t c = 0; c < Columns; ++c) out(r, c) += a(r, k) * b(k, c);
        return out;
    }

  private:
    std::array<T, Rows * Columns> data_{};
};

}  // namespace algebra
