// Handing C++ memory to numpy without a copy.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace hearth::binding {

template <typename T>
using NumpyArray = nanobind::ndarray<nanobind::numpy, T>;

// A numpy array that owns `values`.
template <typename T>
NumpyArray<T> to_numpy(std::vector<T> values, std::initializer_list<size_t> shape) {
    auto owned = std::make_unique<std::vector<T>>(std::move(values));
    T* data = owned->data();
    nanobind::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return NumpyArray<T>(data, shape, std::move(owner));
}

} // namespace hearth::binding
