#include "cluster/member_commands.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sysexits.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cluster/etcd_registry.hpp"
#include "cluster/file_registry.hpp"
#include "cluster/member_loop.hpp"
#include "cluster/member_report.hpp"

namespace tandem::cluster {
namespace {

constexpr std::string_view summary =
    "tandem-member: puts the server of this machine into the list of nodes that clients discover\n\n"
    "usage: tandem-member COMMAND [OPTION...]\n\ncommands:\n"
    "  run      keep this node in the fleet's list, and the list in the server\n"
    "  status   show what the member knows; exit code 0 if this node is in the list\n"
    "  drain    take this node out of the list, with the server running; --undo: put it back\n"
    "  publish  show the list that --force would publish; with it, take out all nodes that do not serve\n\n"
    "`tandem-member COMMAND --help` prints a command's options.\n";

class MemberError : public std::runtime_error {
 public:
  MemberError(int exit_code, const std::string& message) : std::runtime_error(message), code(exit_code) {}
  const int code;
};

struct RegistryOptions {
  std::string registry, fleet;
  EtcdOptions etcd;
  std::string password_file;
};

std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

void add_registry(CLI::App& app, RegistryOptions& options) {
  app.add_option("--registry", options.registry, "etcd:URL[,URL...], or file:PATH of a list that somebody else writes")
      ->required();
  app.add_option("--cluster", options.fleet, "name of the fleet in etcd");
  app.add_option("--etcd-user", options.etcd.user, "user of etcd");
  app.add_option("--etcd-password-file", options.password_file, "file whose first line is the user's password");
  app.add_option("--etcd-ca", options.etcd.ca, "PEM file of the CAs of etcd; if not given: the system's");
  app.add_option("--etcd-cert", options.etcd.certificate, "PEM file of this client's certificate");
  app.add_option("--etcd-key", options.etcd.key, "PEM file of its private key");
}

bool is_file(const RegistryOptions& options) { return options.registry.starts_with("file:"); }

std::unique_ptr<Registry> open_registry(RegistryOptions options) {
  constexpr std::string_view file = "file:", etcd = "etcd:";
  if (is_file(options)) return std::make_unique<FileRegistry>(options.registry.substr(file.size()));
  if (!options.registry.starts_with(etcd))
    throw MemberError(EX_USAGE, "--registry: expected etcd:URL or file:PATH, got " + options.registry);
  options.etcd.endpoints = parts_of(std::string_view(options.registry).substr(etcd.size()));
  if (options.etcd.endpoints.empty()) throw MemberError(EX_USAGE, "--registry: etcd: without a URL");
  for (std::string& url : options.etcd.endpoints) {
    if (!url.starts_with("http://") && !url.starts_with("https://"))
      throw MemberError(EX_USAGE, "--registry: " + url + " does not begin with http:// or https://");
    while (url.ends_with('/')) url.pop_back();
  }
  const bool is_name = !options.fleet.empty() && options.fleet.size() <= 64 &&
                       options.fleet.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string::npos;
  if (!is_name) throw MemberError(EX_USAGE, "--cluster: a name of a to z, 0 to 9, -, _ and ., which etcd needs");
  options.etcd.fleet = options.fleet;
  if (!options.password_file.empty()) {
    std::ifstream in(options.password_file);
    if (!std::getline(in, options.etcd.password))
      throw MemberError(EX_NOINPUT, options.password_file + ": a password cannot be read");
  }
  return std::make_unique<EtcdRegistry>(std::move(options.etcd));
}

// --- the node

unsigned port_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  unsigned port = 0;
  if (colon != std::string::npos) std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  return port;
}

std::string address_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    throw MemberError(EX_NOHOST,
                      "--advertise: " + host + ": " + gai_strerror(error) + " (--advertise-ip names its address)");
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  std::array<char, NI_MAXHOST> text{};
  getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

Time milliseconds_of(double seconds) { return Time(static_cast<std::int64_t>(seconds * 1000)); }

int parse(CLI::App& app, std::span<const std::string> arguments) {
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return -1;
  } catch (const CLI::ParseError& error) {
    throw MemberError(EX_USAGE, error.what());
  }
  return EX_OK;
}

int run(std::span<const std::string> arguments) {
  RegistryOptions registry;
  MemberLoopOptions loop;
  Node& self = loop.membership.self;
  double ttl_s = 10, remove_s = 20, drain_s = 180, pace = 1;
  loop.link.server = "127.0.0.1:11211";
  loop.link.control = "/run/tandem/control.sock";
  CLI::App app("Keeps this node in the fleet's list, and the list in the server.", "tandem-member run");
  app.set_config("--config")->description("TOML file of these options");
  app.allow_config_extras(CLI::config_extras_mode::error);
  add_registry(app, registry);
  app.add_option("--server", loop.link.server, "where the server answers clients, HOST:PORT")->capture_default_str();
  app.add_option("--control", loop.link.control, "the server's control socket")->capture_default_str();
  app.add_option("--advertise", self.host, "host name by which clients know this node; needed by etcd");
  app.add_option("--advertise-ip", self.ip, "its address; if not given: what the name resolves to");
  app.add_option("--advertise-port", self.port, "its port; if not given: --server's")->check(CLI::Range(1, 65535));
  app.add_option("--ttl", ttl_s, "seconds after which a node whose member is gone counts as gone")
      ->capture_default_str()
      ->check(CLI::Range(2.0, 3600.0));
  app.add_option("--remove-after", remove_s, "seconds after that until it is out of the list")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 86'400.0));
  app.add_option("--drain", drain_s, "seconds for which a node that leaves serves on")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86'400.0));
  app.add_option("--metrics-file", loop.metrics_file, "file for node_exporter's textfile collector");
  app.add_option("--pace", pace, "for tests: how many times faster all but --ttl is")->group("");
  if (parse(app, arguments) != EX_OK) return EX_OK;

  MembershipOptions& membership = loop.membership;
  membership.is_listed = !is_file(registry);
  std::unique_ptr<Registry> opened = open_registry(registry);
  if (port_of(loop.link.server) == 0)
    throw MemberError(EX_USAGE, "--server: expected HOST:PORT, got " + loop.link.server);
  if (self.port == 0) self.port = port_of(loop.link.server);
  if (membership.is_listed) {
    if (self.host.empty())
      throw MemberError(EX_USAGE, "--advertise: the name by which clients know this node is missing");
    if (self.ip.empty()) self.ip = address_of(self.host);
    if (const std::string problem = problem_of(self); !problem.empty())
      throw MemberError(EX_USAGE, "--advertise: " + problem);
  }
  const auto paced = [&](Time time) {
    return Time(static_cast<std::int64_t>(static_cast<double>(time.count()) / pace));
  };
  membership.boot = random_boot();
  membership.ttl = milliseconds_of(ttl_s);
  membership.tick = paced(membership.tick);
  membership.look_after = membership.is_listed ? paced(membership.look_after) : membership.tick;
  membership.drain = paced(milliseconds_of(drain_s));
  membership.rules = {paced(membership.rules.joins_after), paced(milliseconds_of(remove_s)),
                      paced(membership.rules.window)};
  loop.link.legacy_pause = paced(loop.link.legacy_pause);
  loop.registry_name = registry.registry;
  return run_member(loop, *opened);
}

// --- asking the server

// The reply to one request on the control socket.
ControlReply ask_control(const std::string& path, const std::string& request) {
  LinkSocket socket(socket_address(path));
  ControlReplies replies;
  const Time end = steady_now() + std::chrono::seconds(5);
  if (!socket.send(request)) throw MemberError(EX_UNAVAILABLE, socket.problem());
  while (steady_now() < end) {
    std::vector<Registry::Wake> wakes{socket.wake()};
    wait_for(wakes, end - steady_now());
    std::string received;
    const bool is_open = socket.progress(wakes.front(), received);
    replies.feed(received);
    if (std::optional<ControlReply> reply = replies.next()) return *reply;
    if (!is_open) throw MemberError(EX_UNAVAILABLE, socket.problem());
  }
  throw MemberError(EX_UNAVAILABLE, path + ": no answer");
}

std::string report_of(const std::string& control) {
  const ControlReply reply = ask_control(control, "config get " + std::string(status_key) + "\r\n");
  if (!reply.is_value)
    throw MemberError(EX_UNAVAILABLE,
                      control + ": " + (reply.text == "END" ? "no member has told the server anything" : reply.text));
  return reply.text;
}

std::string& add_control(CLI::App& app, std::string& control) {
  control = "/run/tandem/control.sock";
  app.add_option("--control", control, "the server's control socket")->capture_default_str();
  return control;
}

int status(std::span<const std::string> arguments) {
  std::string control;
  bool json = false;
  CLI::App app("Shows what the member of this node knows.", "tandem-member status");
  add_control(app, control);
  app.add_flag("--json", json, "as one line of JSON");
  if (parse(app, arguments) != EX_OK) return EX_OK;
  const std::string report = report_of(control);
  std::cout << (json ? report + '\n' : to_text(report, unix_now()));
  return is_well(report, unix_now()) ? EX_OK : 1;
}

int drain(std::span<const std::string> arguments) {
  std::string control;
  bool undo = false;
  double limit_s = 120;
  CLI::App app(
      "Takes this node out of the list, or puts it back, and waits until it is. Its server runs on. Lasts until "
      "it is undone, or the server restarts.",
      "tandem-member drain");
  add_control(app, control);
  app.add_flag("--undo", undo, "put it back");
  app.add_option("--wait", limit_s, "seconds to wait for the list")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  if (parse(app, arguments) != EX_OK) return EX_OK;
  const std::string key(drain_key);
  const ControlReply reply =
      ask_control(control, undo ? "config delete " + key + "\r\n" : "config set " + key + " 0 3\r\nyes\r\n");
  if (reply.text != "STORED" && reply.text != "DELETED" && reply.text != "NOT_FOUND")
    throw MemberError(EX_UNAVAILABLE, control + ": " + reply.text);
  for (const Time end = steady_now() + milliseconds_of(limit_s); steady_now() < end;
       std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    const std::string report = report_of(control);
    const bool is_in = report.find("\"in_list\":true") != std::string::npos;
    if (is_in == undo) return EX_OK;
  }
  throw MemberError(EX_TEMPFAIL, undo ? "the node is not in the list yet" : "the list still names the node");
}

// --- publish

RegistryReply ask_registry(Registry& registry, RegistryRequest request) {
  const RegistryCall call = request.call;
  registry.send(std::move(request));
  for (;;) {
    std::vector<Registry::Wake> none;
    for (RegistryReply& reply : registry.wait(none, Time{1000})) {
      if (reply.call == call) return reply;
    }
  }
}

int publish(std::span<const std::string> arguments) {
  RegistryOptions options;
  bool force = false;
  CLI::App app(
      "Shows, or with --force publishes, a list of the nodes that serve: all others go out at once, how many "
      "these may be.",
      "tandem-member publish");
  app.set_config("--config")->description("TOML file of these options");
  app.allow_config_extras(true);
  add_registry(app, options);
  app.add_flag("--force", force, "publish it");
  if (parse(app, arguments) != EX_OK) return EX_OK;
  if (is_file(options)) throw MemberError(EX_USAGE, "publish: a file is published by writing it");
  const std::unique_ptr<Registry> registry = open_registry(options);
  RegistryReply read = ask_registry(*registry, {.call = RegistryCall::read});
  // Each endpoint once.
  for (std::size_t left = parts_of(options.registry).size(); left > 1 && read.outcome != RegistryOutcome::done; --left)
    read = ask_registry(*registry, {.call = RegistryCall::read});
  if (read.outcome != RegistryOutcome::done) throw MemberError(EX_UNAVAILABLE, read.problem);
  if (!read.config) throw MemberError(EX_UNAVAILABLE, "the registry has no list that can be read");
  const Decision decision = next_config(*read.config, read.records, {}, {}, Time{0}, unix_now(), true);
  const FleetConfig& list = decision.config ? *decision.config : *read.config;
  std::cout << document_of(list);
  if (!decision.held.empty()) throw MemberError(EX_TEMPFAIL, "no node serves: the last one stays in the list");
  if (!force || !decision.config) return EX_OK;
  const RegistryReply reply =
      ask_registry(*registry, {.call = RegistryCall::publish, .revision = read.config_revision, .config = list});
  if (reply.outcome == RegistryOutcome::refused) throw MemberError(EX_TEMPFAIL, "the list has changed meanwhile");
  if (reply.outcome != RegistryOutcome::done) throw MemberError(EX_UNAVAILABLE, reply.problem);
  return EX_OK;
}

}  // namespace

int run_member_program(std::span<const std::string> arguments) {
  const std::string command = arguments.empty() ? "" : arguments.front();
  try {
    if (command == "run") return run(arguments.subspan(1));
    if (command == "status") return status(arguments.subspan(1));
    if (command == "drain") return drain(arguments.subspan(1));
    if (command == "publish") return publish(arguments.subspan(1));
    if (command == "help" || command == "--help" || command == "-h") {
      std::cout << summary;
      return EX_OK;
    }
    throw MemberError(EX_USAGE, command.empty() ? "a command is missing (`tandem-member help` lists them)"
                                                : "unknown command " + command + " (`tandem-member help` lists them)");
  } catch (const MemberError& error) {
    std::cerr << "tandem-member: " << error.what() << '\n';
    return error.code;
  } catch (const std::exception& error) {
    std::cerr << "tandem-member: " << error.what() << '\n';
    return EX_OSERR;
  }
}

}  // namespace tandem::cluster
