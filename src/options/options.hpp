// The one table of options, from which `tandem serve`'s command line, the TOML file, memcached's letters, the help
// texts and docs/options.md are made.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/engine.hpp"
#include "net/options.hpp"
#include "options/needs.hpp"

namespace tandem::cli {

// Options of the process around the server.
struct ProcessOptions {
  std::string user;      // become this user when started as root; empty: stay
  bool daemon = false;   // leave the terminal once the server listens
  std::string pid_file;  // written when the server listens, removed at exit; empty: none
  bool lock_memory = false;
  bool core_files = false;
  bool seccomp = false;  // only the system calls that serving needs (system_call_filter.hpp)
};

// The accelerator; the server's `preset` says which batches are offloaded.
struct GpuOptions {
  std::string which = "auto";      // the first GPU if there is one; off, sim (device/sim), or a number
  unsigned count = 1;              // of them, from that one on; 0: all
  bool steal = false;              // SchedulerOptions::steal
  unsigned batch_min = 0;          // SchedulerOptions::queries_min
  unsigned cycle_us = 0;           // SchedulerOptions::cycle
  unsigned latency_target_us = 0;  // or the cycle that meets this target, by the calibration (gpu_cycle.hpp); 0: none
  double rate_millions = 0;        // queries per second to serve; 0: unknown
  double get_percent = 95;         // share of GETs among them
  std::string calibration;         // file; empty: calibration_path()
  std::uint64_t values_bytes = 0;  // ReplicaImagesOptions
  unsigned value_max_bytes = 128;
  std::uint64_t hot_bytes = hot_bytes_default;  // EngineOptions::hot_memory_bytes
  unsigned hot_latency_us = 50;                 // the router's target; 0: none
  double hot_threshold = 0;                     // RouterOptions
  unsigned hot_model = 0;                       // PopularityKind
};

struct Settings {
  ServerOptions server;
  EngineOptions engine;
  GpuOptions gpu;
  ProcessOptions process;
  unsigned index = 0;  // 0: of the preset's kind; else the number, from 1 on, of a row of index_kinds()
};

// Which kind of index these settings ask for.
std::string_view index_kind_of(const Settings& settings) noexcept;

// The defaults of `tandem serve` and of memcached.
Settings serve_defaults();
// The default memory in a control group with this limit: 1 GiB, or three quarters of the limit if that is less.
std::uint64_t default_memory_bytes(std::uint64_t limit_bytes);
Settings memcached_defaults();

// Ends the program with a message and one of <sysexits.h>'s codes.
class CommandError : public std::runtime_error {
 public:
  CommandError(int exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

enum class Kind : std::uint8_t { text, list, flag, integer, real, size, seconds, mode, count, choice };

// How memcached's letter treats its argument, beyond storing it.
enum class Effect : std::uint8_t {
  none,          // memcached has no such option
  value,         // stores the text or adds it to the list
  number,        // atoi()
  real,          // atof()
  octal,         // strtol(.., 8)
  mebibytes,     // atoi(), in MiB
  item_bytes,    // atoi() and an optional k or m
  slot_bytes,    // atoi(), the bytes of key, value and flags: our header is added
  turn_on,       // a switch
  turn_off,      // a switch that turns the option off
  large_pages,   // a switch that fails where the system has no large pages
  count,         // counts its occurrences
  help,          // print and exit
  license,       // print and exit
  version,       // print and exit
  protocol,      // auto, ascii, binary
  extended,      // -o
  strict,        // of -o: a whole number, else memcached's error
  delimiter,     // stores the first character and turns prefix statistics on
  ignored,       // reported on stderr, without effect
  ignored_text,  // the same, takes an argument that must not be empty
  refused,       // a protection that is not implemented: an error
};

// The setting that an option writes.
using Field = std::variant<bool*, int*, unsigned*, std::uint64_t*, double*, std::string*, std::vector<std::string>*>;

struct Option {
  std::string_view name = {};   // `tandem serve --name` and the key in a TOML file; empty: only memcached has it
  std::string_view group = {};  // heading in help, docs and files
  Kind kind = Kind::flag;
  std::string_view help = {};
  Field (*field)(Settings&) = nullptr;
  double minimum = 0, maximum = 0;       // of integer, real, size (bytes), seconds and choice
  std::string_view choices = {};         // names joined by |, the first one for `minimum`
  std::string_view value_name = "FILE";  // of a text, in help
  std::string_view serve_default = {};   // shown in help and docs if it depends on the machine

  char letter = 0;            // memcached's
  bool serve_letter = false;  // also of `tandem serve`
  std::string_view long_name = {};
  Effect effect = Effect::none;
  std::string_view argument = {};        // memcached's name for the argument; empty: a switch
  std::string_view memcached_help = {};  // if `help` does not fit the letter
  std::string_view low_error = {};       // memcached's message for a number below the minimum; it then exits with 1
  std::string_view extended = {};        // `-o NAME` or `-o NAME=VALUE`

  std::array<Need, 2> needs = {};  // of the other options, to take effect

  bool is_serve() const noexcept { return !name.empty(); }
};

// The option names of `tandem serve` with dashes, for help: `-p, --port`; for a switch, the name that turns it on.
std::string serve_names(const Option& option);

std::span<const Option> all_options();
const Option* find_option(std::string_view name);        // of `tandem serve`, or nullptr
const Option* find_letter(char letter);                  // of memcached, or nullptr
const Option* find_extended(std::string_view extended);  // of memcached's -o, or nullptr

// Sets the option from a text. For a list, adds the text's comma-separated parts. Throws ValueError.
void set_from_text(const Option& option, Settings& settings, std::string_view text);
// Sets a number after checking its range. Throws ValueError.
void set_number(const Option& option, Settings& settings, double number);
void set_flag(const Option& option, Settings& settings, bool on);
std::string& text_of(const Option& option, Settings& settings);
std::vector<std::string>& list_of(const Option& option, Settings& settings);

// Describes the valid values: "an integer from -1 to 65535".
std::string expectation(const Option& option);
// The option's present value as a text that set_from_text() takes; a list's entries are joined by commas.
std::string show(const Option& option, const Settings& settings);
// The name of the value in `tandem serve`'s help: SIZE, NUMBER, ... Empty for a switch.
std::string_view placeholder(const Option& option);

}  // namespace tandem::cli
