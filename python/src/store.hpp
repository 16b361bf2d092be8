// tandem.Store.
#pragma once
#include <tandem/tandem.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "buffers.hpp"
#include "errors.hpp"

namespace tandem::python {

// A call with so many keys or bytes gives up the interpreter's lock, which costs as much as some single gets.
inline constexpr std::size_t keys_to_let_go = 64, bytes_to_let_go = std::size_t{64} << 10;

// An open store. Everything is called with the interpreter's lock but what a LetGo covers.
class Store {
 public:
  Store(const tandem_options& options, std::string text);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // For a call: throws Closed or Forked.
  tandem_store* open() const;
  bool is_closed() const { return store_ == nullptr; }
  // Waits for the calls of other threads that have let the lock go: for `seconds`, then the store is left as it is.
  void close(double seconds);
  const std::string& text() const { return text_; }

  // Gives up the interpreter's lock for its lifetime, if `really`. No Python call may be made meanwhile, and none may be
  // made from a visitor: it runs inside an epoch, which writers with the lock may wait for.
  class LetGo {
   public:
    LetGo(Store& store, bool really) : store_(store), thread_(nullptr) {
      if (!really) return;
      store_.busy_.fetch_add(1, std::memory_order_relaxed);
      thread_ = PyEval_SaveThread();
    }
    ~LetGo() {
      if (thread_ == nullptr) return;
      store_.busy_.fetch_sub(1, std::memory_order_release);
      PyEval_RestoreThread(thread_);
    }
    LetGo(const LetGo&) = delete;
    LetGo& operator=(const LetGo&) = delete;

   private:
    Store& store_;
    PyThreadState* thread_;
  };

 private:
  bool is_forked() const;
  tandem_store* store_;
  const std::uint64_t forks_;
  std::atomic<unsigned> busy_{0};  // calls without the lock
  std::string text_;
};

// Once, when the module is imported: marks the stores of a fork's child, and closes the open ones at exit.
void watch_process(nb::module_& module);

// The C interface's form of a time to live: None, seconds or a timedelta. Throws TypeError, ValueError.
std::int64_t ttl_of(nb::handle ttl);

// What the parts of the class have. The calls that are made most are slots of the type (direct.hpp).
const PyType_Slot* direct_slots();
void define_opening(nb::class_<Store>& type);
void define_single(nb::class_<Store>& type);
void define_many(nb::module_& module, nb::class_<Store>& type);
void define_scans(nb::module_& module, nb::class_<Store>& type);
void define_rows(nb::class_<Store>& type);

}  // namespace tandem::python
