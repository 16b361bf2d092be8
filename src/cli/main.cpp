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

// Where an error cannot be passed on (a thread's first steps, objects made before main): it is said, and no core is
// dumped for want of memory.
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

// Before all objects that are made before main.
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
