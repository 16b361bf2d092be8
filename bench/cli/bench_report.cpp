// `tandem bench report`: result documents as one page with plots.
#include <fmt/format.h>
#include <sysexits.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/cli/bench.hpp"
#include "bench/report/report.hpp"
#include "options/arguments.hpp"
#include "options/options.hpp"

namespace tandem::cli {

int run_bench_report(std::span<const std::string> arguments) {
  std::vector<std::string> files;
  std::string out, python;
  CLI::App app(
      "Makes one HTML page of documents that `tandem bench` wrote, with a PNG and an SVG of each plot. Needs Python "
      "3.10 with matplotlib 3.6 or newer.",
      "tandem bench report");
  app.add_option("FILE", files, "documents, as --json writes them (docs/bench-format.md)")->required();
  app.add_option("--out", out, "folder for index.html and the plots; made if it is not there")->required();
  app.add_option("--python", python,
                 "the Python to run; else that of $TANDEM_PYTHON, of this build, or python3 of the path");
  if (const auto done = parse_arguments(app, arguments, "bench report")) return *done;

  if (python.empty()) {
    std::error_code unknown;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
    python = bench::report_python(std::getenv("TANDEM_PYTHON"), program);
  }
  const bench::PrivateFolder folder;
  bench::write_report_program(folder.path());
  // -B: no files are written beside the sources, which are removed at the end.
  std::vector<std::string> command{python, "-B", folder.path().string(), "--out", out, "--"};
  command.insert(command.end(), files.begin(), files.end());
  try {
    return bench::run_and_wait(command);
  } catch (const std::system_error& error) {
    throw CommandError(
        EX_UNAVAILABLE,
        fmt::format("bench report: cannot run {}: {}; install python3 and python3-matplotlib, or name a Python with "
                    "--python",
                    python, error.code().message()));
  }
}

}  // namespace tandem::cli
