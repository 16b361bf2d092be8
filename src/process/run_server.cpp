#include "process/run_server.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "bench/common/document.hpp"
#include "heap/bus_error.hpp"
#include "monitor/monitor.hpp"
#include "net/endpoint.hpp"
#include "net/log.hpp"
#include "net/secret_files.hpp"
#include "net/xdp/xdp.hpp"
#include "operate/server.hpp"
#include "options/gpu_cycle.hpp"
#include "options/value.hpp"
#include "options/version.hpp"
#include "preset/preset.hpp"
#include "process/notify.hpp"
#include "process/open_gpu.hpp"
#include "process/process.hpp"
#include "process/signals.hpp"
#include "process/start_checks.hpp"
#include "process/system_call_filter.hpp"

namespace tandem::cli {
namespace {

void choose_user(const ProcessOptions& process, ServerStyle style) {
  if (style == ServerStyle::memcached) {
    if (!is_root()) return;  // memcached ignores -u then
    if (process.user.empty()) throw CommandError(EX_USAGE, "can't run as root without the -u switch");
  }
  if (!process.user.empty()) become_user(process.user, process.core_files);
}

void write_pid_file(PidFile& file, const std::string& path, ServerStyle style) {
  try {
    if (const std::string warning = file.write(path); !warning.empty()) net::warn(warning);
  } catch (const CommandError& error) {
    if (style == ServerStyle::tandem) throw;
    net::warn(error.what());
  }
}

// As memcached, which ignores failures, too.
void write_ports(const Server& server) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing sets the environment
  const char* const path = std::getenv("MEMCACHED_PORT_FILENAME");
  if (path == nullptr || server.listening_ports().empty()) return;
  if (const std::string error = write_port_file(path, server.listening_ports()); !error.empty()) net::warn(error);
}

void say_serving(const Settings& settings, ServerStyle style, const Engine& engine, const Server& server) {
  net::say(fmt::format("serving on {}, {}, {} {}, lanes {}",
                       describe_addresses(settings.server, server.tcp_port(), server.udp_port()),
                       format_size_rounded(settings.engine.memory_bytes), settings.server.threads,
                       settings.server.threads == 1 ? "thread" : "threads", engine.shared().index.lanes()));
  if (settings.server.xdp != nullptr) net::say(settings.server.xdp->text());
  if (is_root() && style == ServerStyle::tandem && settings.process.user.empty())
    net::warn("running as root is not needed: use --user NAME");
  const auto& devices = settings.engine.devices;
  if (devices.empty()) return;
  const std::string times = devices.size() > 1 ? fmt::format("{} x ", devices.size()) : std::string();
  net::say(
      fmt::format("GPU: {}{}, preset {}", times, devices.front()->info().name, show(*find_option("preset"), settings)));
}

// memcached logs starts and stops only with -v.
bool says_course(const Settings& settings, ServerStyle style) {
  return style == ServerStyle::tandem || settings.server.verbosity > 0;
}

void say_stopping(int number, bool says) {
  if (number == SIGUSR1) {
    net::say("Gracefully stopping");  // memcached's words
  } else if (says) {
    net::say(number == SIGINT ? "stopping: received SIGINT" : "stopping: received SIGTERM");
  }
}

void say_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) net::warn(warning);
}

// Reloads files, and says which changed settings need a restart. A failure is logged and changes nothing.
void reload(Server& server, monitor::Monitor* monitor, const ChangedSettings& changed_settings) {
  try {
    std::vector<net::LogLine> lines = server.reload();
    if (monitor != nullptr) {
      if (auto line = monitor->reload()) lines.push_back(std::move(*line));
    }
    for (net::LogLine& line : changed_settings()) lines.push_back(std::move(line));
    if (lines.empty()) lines.push_back({"nothing to reload: settings need a restart"});
    for (const net::LogLine& line : lines) net::say(line.text, line.level);
    say_warnings(server.warnings());
  } catch (const std::bad_alloc&) {
    net::warn("reload: out of memory; all stays as it was");
  }
}

}  // namespace

std::string describe_addresses(const ServerOptions& options, int tcp_port, int udp_port) {
  if (!options.unix_path.empty()) return options.unix_path;
  std::string out;
  for (const std::string& entry : options.listen) {
    if (!out.empty()) out += ", ";
    const net::Endpoint endpoint = net::parse_endpoint(entry);
    const int port = endpoint.port >= 0 ? endpoint.port : tcp_port != 0 ? tcp_port : udp_port;
    const bool is_v6 = endpoint.host.find(':') != std::string::npos;
    const std::string host = endpoint.host.empty() ? "*" : is_v6 ? fmt::format("[{}]", endpoint.host) : endpoint.host;
    out += fmt::format("{}{}:{}", endpoint.plain ? "notls:" : "", host, port);
  }
  const bool same = tcp_port == udp_port || tcp_port == 0;
  const std::string_view tcp = options.tls.enabled ? "TLS" : "TCP";
  if (tcp_port != 0 && udp_port != 0)
    return out + (same ? fmt::format(" ({}, UDP)", tcp) : fmt::format(" ({}; UDP on {})", tcp, udp_port));
  return out + (tcp_port != 0 ? fmt::format(" ({})", tcp) : " (UDP)");
}

std::string page_address(const std::string& address, int port) {
  const net::Endpoint endpoint = net::parse_endpoint(address);
  if (endpoint.host.empty()) return fmt::format("http://127.0.0.1:{}/, and at every other address", port);
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}/", is_v6 ? fmt::format("[{}]", endpoint.host) : endpoint.host, port);
}

namespace {

void give_up_devices(const EngineOptions& engine) {
  for (const auto& device : engine.devices) device->abandon();
  net::say(engine.devices.empty() ? "no GPU to give up" : "GPU given up");
}

void say_file_warnings(const Server& server, const std::string& token_file) {
  say_warnings(server.warnings());
  if (token_file.empty()) return;
  if (const std::string warning = net::password_file_warning(token_file); !warning.empty()) net::warn(warning);
}

// Locks memory, leaves the working directory, and gives up the system calls that serving does not need.
void restrict_process(const Settings& settings, Daemon& daemon) {
  const ProcessOptions& process = settings.process;
  if (process.lock_memory) {
    if (const std::string error = lock_memory(); !error.empty()) net::warn("memory is not locked: " + error);
  }
  daemon.leave(process.core_files);
  if (!process.seccomp) return;
  const bool has_socket_file = !settings.server.unix_path.empty() || !settings.server.control_path.empty();
  filter_system_calls({.removes_files = !process.pid_file.empty() || has_socket_file,
                       .memory_file = !settings.engine.memory_file.empty()});
}

// Serves clients from the start to the stop.
void serve(Settings& settings, ServerStyle style, Engine& engine, Daemon& daemon,
           const ChangedSettings& changed_settings) {
  const ProcessOptions& process = settings.process;
  const bool says = says_course(settings, style);
  const ServiceManager manager;
  // Before clients are accepted: Tandem exits with an error if it cannot bind the address.
  std::optional<monitor::Monitor> monitor;
  if (!settings.server.metrics.empty())
    monitor.emplace(settings.server.metrics, settings.server.metrics_token_file, std::string(version),
                    std::string(bench::build_commit()));
  // memcached's signal for a restart.
  const bool is_stopped_by_usr1 = style == ServerStyle::memcached;
  std::atomic<Server*> serving{nullptr};
  std::atomic<bool> is_stopped{false};
  // Before clients are accepted, too: Tandem exits with an error if it cannot start the thread.
  std::optional<Signals> signals([&](int number) {
    const bool stops = number == SIGINT || number == SIGTERM || (number == SIGUSR1 && is_stopped_by_usr1);
    if (number == SIGHUP) {  // a closed terminal must not stop a store
      if (Server* const now = serving.load()) reload(*now, monitor ? &*monitor : nullptr, changed_settings);
      return;
    }
    if (number == SIGUSR2) give_up_devices(settings.engine);
    if (!stops) return;  // USR1: reserved
    manager.tell("STOPPING=1");
    // Either this load sees the server, or the start sees the flag.
    if (!is_stopped.exchange(true)) say_stopping(number, says);
    if (Server* const now = serving.load()) now->stop();
  });
  settings.server.version = version;
  settings.server.stop_asked = [&is_stopped, says](bool graceful) {
    if (!is_stopped.exchange(true) && says)
      net::say(graceful ? "Gracefully stopping" : "stopping: a client sent shutdown");
  };
  Server server(settings.server, engine);
  struct Ends {  // the server's users, destroyed before it
    std::optional<monitor::Monitor>& monitor;
    std::optional<Signals>& signals;
    ~Ends() {
      signals.reset();
      monitor.reset();
    }
  } const ends{monitor, signals};
  serving.store(&server);
  if (is_stopped.load()) server.stop();
  say_file_warnings(server, settings.server.metrics_token_file);
  if (monitor) monitor->watch(server.telemetry());
  if (style == ServerStyle::memcached) write_ports(server);
  PidFile pid_file;
  if (!process.pid_file.empty()) write_pid_file(pid_file, process.pid_file, style);
  restrict_process(settings, daemon);
  if (says) say_serving(settings, style, engine, server);
  if (monitor && says)
    net::say(fmt::format("live page and metrics: {}", page_address(settings.server.metrics, monitor->port())));
  daemon.ready(settings.server.verbosity > 0);
  manager.tell("READY=1");
  server.wait();
}

void learn_hot_keys(EngineOptions& engine, const GpuOptions& asked, const PresetRow& preset) {
  engine.hot_memory_bytes = preset.hot_bytes(asked.hot_bytes);
  engine.router.kind = static_cast<PopularityKind>(asked.hot_model);
  engine.router.threshold = asked.hot_threshold / 100;
  engine.router.controller.latency_target_ns = 1e3 * asked.hot_latency_us;
}

}  // namespace

int run_server(Settings settings, ServerStyle style, const ChangedSettings& changed_settings) {
  const ProcessOptions& process = settings.process;
  if (process.core_files) raise_core_limit();
  say_warnings(fit_to_system(settings, style));
  if (process.lock_memory) raise_lock_limit();
  // Attached with rights that another user, and the server's life, do not need.
  if (!settings.server.xdp_interface.empty()) settings.server.xdp = net::Xdp::attach(settings.server);
  choose_user(process, style);
  settings.process.pid_file = absolute_path(process.pid_file);
  settings.engine.contexts_max = std::max(settings.engine.contexts_max, settings.server.threads + 64);

  Daemon daemon;
  if (process.daemon) {
    // The sockets' files are removed at the end, when the working directory may have changed.
    settings.server.unix_path = absolute_path(settings.server.unix_path);
    settings.server.control_path = absolute_path(settings.server.control_path);
    // Certificates may be reloaded from there, too.
    for (std::string* path : {&settings.server.tls.certificate, &settings.server.tls.key, &settings.server.tls.ca})
      *path = absolute_path(*path);
    // Reloaded upon HUP.
    settings.server.sasl_file = absolute_path(settings.server.sasl_file);
    settings.server.auth_file = absolute_path(settings.server.auth_file);
    settings.server.metrics_token_file = absolute_path(settings.server.metrics_token_file);
    settings.gpu.calibration = absolute_path(settings.gpu.calibration);
    if (const auto exit_code = daemon.start()) return *exit_code;
  }
  hold_signals();
  if (!settings.engine.memory_file.empty()) settings.engine.memory_file = absolute_path(settings.engine.memory_file);
  end_by_bus_errors_with(EX_IOERR);
  settings.engine.log = [](std::string_view line) { net::say(line); };
  settings.engine.warn = net::warn;
  settings.engine.devices = open_gpus(settings, settings.engine.log);
  if (process.seccomp && !settings.engine.devices.empty() && settings.gpu.which != "sim") {
    throw CommandError(EX_USAGE,
                       "a GPU's driver needs system calls that seccomp refuses: turn one of them off (gpu, seccomp)");
  }
  const PresetRow& preset = presets()[settings.server.preset];
  settings.engine.index_kind = index_kind_of(settings);
  settings.engine.index_on_device = preset.index_on_device();
  learn_hot_keys(settings.engine, settings.gpu, preset);
  settings.engine.device_values = {.bytes = preset.value_bytes(settings.gpu.values_bytes, settings.engine.memory_bytes),
                                   .item_bytes = settings.gpu.value_max_bytes};
  // A simulated device shares the processors with everything else, so it may be late without being lost.
  if (settings.gpu.which == "sim") settings.engine.scheduler.deadline = std::chrono::seconds{20};
  settings.engine.scheduler.queries_min = settings.gpu.batch_min;
  settings.engine.scheduler.steal = settings.gpu.steal;
  settings.engine.follows_load = preset.offload == Offload::when_sooner;
  settings.engine.scheduler.cycle = gpu_cycle(settings, settings.engine.devices, settings.engine.log);
  auto engine = std::make_unique<Engine>(settings.engine);
  serve(settings, style, *engine, daemon, changed_settings);
  constexpr std::chrono::seconds driver_patience(5);
  if (!engine->close(driver_patience)) {
    net::warn("the GPU's driver does not return; ending without it");
    std::_Exit(EX_OK);
  }
  engine.reset();
  if (says_course(settings, style)) net::say("stopped");
  return EX_OK;
}

}  // namespace tandem::cli
