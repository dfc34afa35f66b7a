// What calls without XLA have in common: their status, their threads, a layer's operands.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "active.h"
#include "backward_tasks.h"
#include "kernel.h"
#include "tasks.h"

namespace kandle {

enum Status : int { kDone = 0, kBadSpline = 1, kNoMemory = 2, kBadNetwork = 3 };

// GOMP_parallel of the OpenMP runtime that the caller uses: runs work(data) on a team of threads.
using Team = void (*)(void (*work)(void*), void* data, unsigned threads, unsigned flags);
inline std::atomic<Team> team{nullptr};

// Runs work(0) .. work(tasks - 1) on up to `threads` threads, the calling one among them.
template <class Work>
Status run_tasks(std::int64_t tasks, std::int64_t threads, const Work& work) {
  struct State {
    const Work& work;
    std::int64_t tasks;
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> out_of_memory{false};
  } state{work, tasks};
  const auto take = [](void* data) {
    State& s = *static_cast<State*>(data);
    for (;;) {
      const std::int64_t task = s.next.fetch_add(1);
      if (task >= s.tasks) return;
      try {
        s.work(task);
      } catch (const std::bad_alloc&) {
        s.out_of_memory = true;
      }
    }
  };
  threads = threads < tasks ? threads : tasks;
  const Team shared = team.load();
  if (threads <= 1) {
    take(&state);
  } else if (shared) {
    shared(take, &state, static_cast<unsigned>(threads), 0);
  } else {
    std::vector<std::thread> helpers;
    for (std::int64_t helper = 1; helper < threads; ++helper) helpers.emplace_back(take, &state);
    take(&state);
    for (std::thread& helper : helpers) helper.join();
  }
  return state.out_of_memory ? kNoMemory : kDone;
}

// Threads that the work of a call is worth.
template <class Args>
std::int64_t worth(const Args& args, std::int64_t threads) {
  return layer_work(args) < kWorthSharing ? 1 : threads;
}

// Runs kernel(args, model, begin, end) over all models and items.
template <class Args, class Kernel>
Status share(const Args& args, std::int64_t items, std::int64_t threads, Kernel kernel) {
  threads = worth(args, threads);
  const Tasks tasks(args.models, items, threads);
  return run_tasks(tasks.count, threads, [&](std::int64_t task) {
    const Range range = tasks.range(task);
    kernel(args, tasks.model(task), range.begin, range.end);
  });
}

// The backward pass of a layer.
template <class T>
Status run_backward(const JetArgs<T>& a, std::int64_t threads) {
  threads = worth(a, threads);
  try {
    const BackwardTasks<T> tasks(a, threads);
    return run_tasks(tasks.count(), threads,
                     [&](std::int64_t task) { tasks.run(active<T>(), task); });
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}

template <class T>
Operand<T> operand(const T* data, std::int64_t size, int batched, int bit) {
  return {data, batched >> bit & 1 ? size : 0};
}

template <class T>
JetArgs<T> layer_args(const T* x, const T* r, const T* c, const T* b, std::int64_t models,
                      std::int64_t n, std::int64_t n_in, std::int64_t n_out, int batched,
                      std::int64_t grid, int degree, double lo, double hi, int residual) {
  JetArgs<T> a{};
  a.spline = {grid, degree, lo, hi};
  a.residual = residual != 0;
  a.models = models, a.n = n, a.n_in = n_in, a.n_out = n_out;
  a.x = operand(x, n * n_in, batched, 0);
  a.r = operand(r, n_out * n_in, batched, 1);
  a.c = operand(c, n_out * n_in, batched, 2);
  a.b = operand(b, n_out * n_in * (grid + degree), batched, 3);
  return a;
}

// The gradients that `p` has targets for.
template <class T>
Status run_second(const SecondArgs<T>& p, std::int64_t threads) {
  const Kernels<T>& kernels = active<T>();
  threads = worth(p.layer, threads);
  const auto run = [&](std::int64_t items, auto kernel) {
    const Tasks tasks(1, items, threads);
    return run_tasks(tasks.count, threads, [&](std::int64_t task) {
      const Range range = tasks.range(task);
      kernel(p, 0, range.begin, range.end);
    });
  };
  Status status = kDone;
  if (p.dh || p.dg) status = run(p.layer.n, kernels.second_outputs);
  if (status == kDone && (p.dx || p.du || p.layer.want_w))
    status = run(p.layer.n_in, kernels.second_inputs);
  return status;
}

}  // namespace kandle
