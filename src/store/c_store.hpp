// What the files behind include/tandem/tandem.h share.
#pragma once
#include <tandem/tandem.h>

#include <cstddef>
#include <exception>
#include <new>
#include <string_view>

#include <tandem/store.hpp>

struct tandem_store {
  explicit tandem_store(const tandem::Options& options) : store(options) {}
  tandem::Store store;
};

namespace tandem {

constexpr tandem_code c_code_of(Code code) { return static_cast<tandem_code>(code); }

inline std::string_view view(const char* bytes, std::size_t size) noexcept {
  return size == 0 ? std::string_view() : std::string_view(bytes, size);
}

// Converts the exceptions that an open store can throw into a code.
template <class F>
tandem_code guarded(F&& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return TANDEM_OUT_OF_MEMORY;
  } catch (const std::exception&) {
    return TANDEM_TOO_MANY_THREADS;
  }
}

}  // namespace tandem
