#include "bench/papers/figures_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "bench/common/child.hpp"
#include "device/cuda/cuda_device.hpp"
#include "net/fd.hpp"

namespace tandem::bench {
namespace {

// Beside this program, or in a build folder; empty: neither.
std::string find_figures_program(std::string_view program) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  for (const auto& folder : {self.parent_path(), self.parent_path().parent_path() / "bench"}) {
    const std::string path = folder / program;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::string reason(int error) { return std::generic_category().message(error); }

// Its output. Spawned, not forked: a driver's threads may exist.
std::string output_of(const std::string& program, const std::string& figure) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(fmt::format("no pipe: {}", reason(errno)));
  const net::Fd from(ends[0]);
  net::Fd to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  std::string name = program, argument = figure;
  char* const words[] = {name.data(), argument.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(fmt::format("{}: {}", program, reason(error)));
  to = net::Fd();
  std::string out;
  char part[4096];
  for (ssize_t bytes = 0; (bytes = read(from.get(), part, sizeof part)) != 0;) {
    if (bytes > 0) out.append(part, static_cast<std::size_t>(bytes));
    if (bytes < 0 && errno != EINTR) break;
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) throw std::runtime_error(fmt::format("{} ended {}", program, describe_status(status)));
  return out;
}

}  // namespace

std::string no_gpu(const PaperOptions& options) {
  if (options.gpu == "sim") return {};
  if (options.gpu == "off") return "it needs a GPU, and --gpu is off";
  const DeviceCount found = cuda_device_count();
  return found.count != 0 ? std::string() : fmt::format("it needs a GPU, and there is none: {}", found.reason);
}

std::string no_figures_program(const PaperOptions& options, std::string_view program) {
  if (options.gpu == "sim") return "it needs a GPU's own kernels, and a simulated one has none";
  if (std::string why = no_gpu(options); !why.empty()) return why;
  if (!find_figures_program(program).empty()) return {};
  return fmt::format("it needs the program {} beside this one; a CUDA build has it (target {})", program, program);
}

std::vector<Json> figure_lines(std::string_view text, std::string_view figure, std::string_view program) {
  std::vector<Json> lines;
  bool is_verified = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Json line = Json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.is_object()) throw std::runtime_error(fmt::format("{}: a line is no JSON object", program));
    is_verified = is_verified || line.value("verified", Json()) == Json(true);
    if (line.value("figure", Json()) == Json(figure) && line.contains("us")) lines.push_back(std::move(line));
  }
  if (!is_verified) throw std::runtime_error(fmt::format("{}: nothing says that answers were checked", program));
  if (lines.empty()) throw std::runtime_error(fmt::format("{}: nothing of figure {}", program, figure));
  return lines;
}

std::vector<Json> measured_lines(PaperRun& run, std::string_view figure, std::string_view program) {
  const std::string path = find_figures_program(program);
  run.say(fmt::format("{} {}", path, figure));
  return figure_lines(output_of(path, std::string(figure)), figure, program);
}

PaperRun::Point point_of(PaperRun& run, const Json& line, std::uint64_t ops, std::string x, bool as_rate) {
  const double us = line.at("us"), least_us = line.at("us_least"), greatest_us = line.at("us_greatest");
  const auto count = static_cast<double>(ops);
  Json settings = Json::object();
  std::string cell = fmt::format("{} {}", run.paper().name, figure_label(line.at("figure").get<std::string>()));
  for (const auto& [key, value] : line.items()) {
    if (key.starts_with("us") || key == "mops" || key == "figure") continue;
    settings[key] = value;
    cell += fmt::format(" {}", value.is_string() ? value.get<std::string>() : value.dump());
  }
  const std::size_t number = run.run_count();
  run.document()["runs"].push_back(
      {{"kind", "memory"},
       {"cell", cell},
       {"subject", "GPU's hash table"},
       {"round", 0},
       {"command", run.command()},
       {"settings", std::move(settings)},
       {"result",
        {{"seconds", us / 1e6}, {"ops", ops}, {"ops_per_s", count / us * 1e6}, {"ns_per_op", us * 1e3 / count}}}});
  if (as_rate) return {std::move(x), {count / us, count / greatest_us, count / least_us}, {number}};
  return {std::move(x), {us, least_us, greatest_us}, {number}};
}

void FigureSeries::add(const std::string& name, PaperRun::Point point) {
  if (!points_.contains(name)) order_.push_back(name);
  points_[name].push_back(std::move(point));
}

void FigureSeries::write(PaperRun& run) {
  for (const std::string& name : order_) run.measured(name, std::move(points_[name]));
}

}  // namespace tandem::bench
