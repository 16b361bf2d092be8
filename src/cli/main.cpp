#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_reserve.hpp"
#include "cli/command.hpp"

namespace {

std::terminate_handler default_terminate = nullptr;

// For exceptions that cannot propagate (in a thread's first steps, or in objects made before main): prints an error,
// and avoids a core dump when memory is exhausted.
[[noreturn]] void end_program() noexcept {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    constexpr std::string_view text = "tandem: out of memory\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(EX_OSERR);
  } catch (...) {
    default_terminate();
  }
  std::abort();
}

// Runs before the constructors of all other static objects.
[[gnu::constructor(101)]] void set_end() noexcept { default_terminate = std::set_terminate(end_program); }

}  // namespace

int main(int argc, char** argv) {
  try {
    tandem::hold_memory_reserve();
    const std::vector<std::string> arguments(argv, argv + argc);
    const int code = tandem::cli::run_program(arguments);
    if (code != EX_OK || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return code;
    std::perror("tandem: standard output");
    return EX_IOERR;
  } catch (const std::bad_alloc&) {
    end_program();
  }
}
