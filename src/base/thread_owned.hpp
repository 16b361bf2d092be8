// One object for each thread that asks for it, destroyed when the thread ends; not the main thread's, which lives as
// long as the process. Replaces a thread_local object with a destructor: without memory to register that destructor,
// glibc ends the process; this throws.
#pragma once
#include <pthread.h>

#include <memory>
#include <new>

namespace tandem {

template <class T>
class ThreadOwned {
 public:
  // The calling thread's object. A thread's first call throws std::bad_alloc without memory.
  static T& mine() {
    if (own == nullptr) make();
    return *own;
  }

 private:
  struct Key {
    Key() noexcept : made(pthread_key_create(&key, &destroy) == 0) {}
    ~Key() {
      if (made) pthread_key_delete(key);
    }
    Key(const Key&) = delete;
    Key& operator=(const Key&) = delete;

    pthread_key_t key{};
    const bool made;
  };
  static void destroy(void* at) noexcept {
    own = nullptr;
    delete static_cast<T*>(at);
  }
  static void make() {
    static const Key key;
    auto made = std::make_unique<T>();
    if (!key.made || pthread_setspecific(key.key, made.get()) != 0) throw std::bad_alloc();
    own = made.release();
  }

  inline static constinit thread_local T* own = nullptr;
};

}  // namespace tandem
