// Share independent tasks between the calling thread and XLA's own pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace kandle {

// Runs work(0) .. work(tasks - 1) on up to `threads` threads. The caller takes tasks too and waits
// only for tasks that another thread has already begun, so a pool that is busy, or has one thread,
// cannot block it. An exception ends its task, never its thread; the first one is thrown again
// here, after all tasks. `work` also receives the task that its thread did before, -1 if none of
// this call: nothing else runs on a thread between the two.
inline void parallel_after(
    xla::ffi::ThreadPool& pool, std::int64_t threads, std::int64_t tasks,
    const std::function<void(std::int64_t task, std::int64_t before)>& work) {
  threads = std::min(threads, tasks);
  if (threads <= 1) {
    for (std::int64_t task = 0; task < tasks; ++task) work(task, task - 1);
    return;
  }
  struct State {
    std::atomic<std::int64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;
    std::exception_ptr failure;
  };
  auto state = std::make_shared<State>();
  // `work` outlives every call to it: a helper that starts late finds no task left.
  const auto help = [state, tasks, &work]() noexcept {
    for (std::int64_t before = -1;;) {
      const std::int64_t task = state->next.fetch_add(1);
      if (task >= tasks) return;
      try {
        work(task, before);
        before = task;
      } catch (...) {
        before = -1;
        std::lock_guard<std::mutex> lock(state->mutex);
        if (!state->failure) state->failure = std::current_exception();
      }
      if (state->done.fetch_add(1) + 1 == tasks) {
        std::lock_guard<std::mutex> lock(state->mutex);
        state->finished.notify_one();
      }
    }
  };
  try {
    for (std::int64_t helper = 1; helper < threads; ++helper) {
      auto copy = help;
      pool.Schedule(std::move(copy));
    }
  } catch (const std::bad_alloc&) {
    // Whoever could not be called does not help.
  }
  help();
  // Tasks are short: waiting for the last one awake is cheaper than going to sleep for it.
  const auto all_done = [&] { return state->done.load(std::memory_order_acquire) == tasks; };
  for (int spin = 0; spin < 20000 && !all_done(); ++spin) {
  }
  if (!all_done()) {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->finished.wait(lock, all_done);
  }
  if (state->failure) std::rethrow_exception(state->failure);
}

// Runs work(0) .. work(tasks - 1).
inline void parallel(xla::ffi::ThreadPool& pool, std::int64_t threads, std::int64_t tasks,
                     const std::function<void(std::int64_t)>& work) {
  parallel_after(pool, threads, tasks, [&](std::int64_t task, std::int64_t) { work(task); });
}

}  // namespace kandle
