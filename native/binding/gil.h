// Running without Python's lock.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace hearth::binding {

// Python's lock is free while this lives, as with nanobind's gil_scoped_release. But where the interpreter is ending,
// CPython (up to 3.13) answers a daemon thread that wants the lock back by ending the thread with pthread_exit, whose
// unwinding no C++ destructor or handler on the way may see: it aborts the process. Such a thread waits here instead,
// as it does in CPython from 3.14 on, until the process is gone.
class GilReleased {
public:
    GilReleased() : state_(PyEval_SaveThread()) {}
    ~GilReleased() { take_back(); }
    GilReleased(const GilReleased&) = delete;
    GilReleased& operator=(const GilReleased&) = delete;

    // Runs fn with the lock, in between.
    template <typename Fn>
    auto with_lock(Fn&& fn) {
        struct Release {
            GilReleased& released;
            ~Release() { released.state_ = PyEval_SaveThread(); }
        };
        take_back();
        const Release release{*this};
        return fn();
    }

private:
    void take_back() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            for (;;) pause();
        }
    }

    PyThreadState* state_;
};

} // namespace hearth::binding
