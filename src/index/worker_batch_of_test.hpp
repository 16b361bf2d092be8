// For tests: an epoch of a thread's operations on an index, or on a tree.
#pragma once
#include "heap/cache.hpp"

namespace tandem {

// Batches nest: the outermost is the epoch. A Worker has its depth_, its epoch and cache, and a store with a heap.
template <class Worker>
class WorkerBatch {
 public:
  explicit WorkerBatch(Worker& w) : w_(w) {
    if (w_.depth_++ == 0) w_.epoch.enter();
  }
  ~WorkerBatch() {
    if (--w_.depth_ != 0) return;
    {
      const Heap::Cache::Lock lock(w_.cache);
      w_.store.heap.reclaim(w_.cache);
    }
    w_.epoch.exit();
  }
  WorkerBatch(const WorkerBatch&) = delete;
  WorkerBatch& operator=(const WorkerBatch&) = delete;

 private:
  Worker& w_;
};

}  // namespace tandem
