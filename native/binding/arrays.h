// Handing C++ memory to numpy without a copy.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace hearth::binding {

template <typename T>
using NumpyArray = nanobind::ndarray<nanobind::numpy, T>;

// A numpy array that owns `values`; shape has n dimensions.
template <typename T>
NumpyArray<T> to_numpy(std::unique_ptr<std::vector<T>> values, const size_t* shape, size_t n) {
    T* data = values->data();
    nanobind::capsule owner(values.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return NumpyArray<T>(data, n, shape, std::move(owner));
}

} // namespace hearth::binding
