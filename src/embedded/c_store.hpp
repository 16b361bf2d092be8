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
static_assert(c_code_of(Code::hit) == TANDEM_HIT && c_code_of(Code::miss) == TANDEM_MISS &&
              c_code_of(Code::stored) == TANDEM_STORED && c_code_of(Code::not_stored) == TANDEM_NOT_STORED &&
              c_code_of(Code::exists) == TANDEM_EXISTS && c_code_of(Code::removed) == TANDEM_REMOVED &&
              c_code_of(Code::not_a_number) == TANDEM_NOT_A_NUMBER && c_code_of(Code::too_large) == TANDEM_TOO_LARGE &&
              c_code_of(Code::out_of_memory) == TANDEM_OUT_OF_MEMORY && c_code_of(Code::bad_key) == TANDEM_BAD_KEY);

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
