#include "options/calibration_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <system_error>

#include "options/options.hpp"
#include "options/value.hpp"
#include "options/version.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t file_bytes_max = std::size_t{1} << 20;

Json line_json(const CalibrationLine& line) {
  Json samples = Json::array();
  for (const CalibrationSample& s : line.samples) {
    const double fitted_ns = line.fit.line.of(static_cast<double>(s.queries));
    samples.push_back({{"queries", s.queries},
                       {"ns", s.median_ns},
                       {"low_ns", s.low_ns},
                       {"high_ns", s.high_ns},
                       {"residual_ns", s.median_ns - fitted_ns}});
  }
  return {{"k_ns", line.fit.line.query_ns},
          {"b_ns", line.fit.line.launch_ns},
          {"r2", line.fit.r2},
          {"samples", std::move(samples)}};
}

// Reads an object of the file; every error names the field.
class Fields {
 public:
  Fields(const Json& object, std::string_view path, std::string name)
      : object_(object), path_(path), name_(std::move(name)) {
    if (!object.is_object()) fail("", "is no object");
  }
  Fields object(const char* key) const {
    if (!member(key).is_object()) fail(key, "is no object");
    return {member(key), path_, name_ + key + "."};
  }
  std::string text(const char* key) const {
    const Json& value = member(key);
    if (!value.is_string()) fail(key, "is no text");
    return value.get<std::string>();
  }
  std::uint64_t count(const char* key) const {
    const Json& value = member(key);
    if (!value.is_number_unsigned()) fail(key, "is no number of something");
    return value.get<std::uint64_t>();
  }
  double number(const char* key, double low, double high) const {
    const Json& value = member(key);
    if (!value.is_number()) fail(key, "is no number");
    const auto number = value.get<double>();
    if (!(number >= low && number <= high)) fail(key, fmt::format("is not from {} to {}", low, high));
    return number;
  }
  LaunchFit line(const char* key) const {
    constexpr double longest_ns = 1e12;
    const Fields f = object(key);
    return {{f.number("k_ns", 0, longest_ns), f.number("b_ns", 0, longest_ns)}, f.number("r2", -1e9, 1)};
  }

 private:
  const Json& member(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "is missing");
    return *found;
  }
  [[noreturn]] void fail(const char* key, std::string_view what) const {
    const std::string name = name_ + key;
    throw CalibrationError(fmt::format("{}: {} {}; `tandem calibrate` makes such files", path_,
                                       name.empty() ? std::string("it") : name, what));
  }

  const Json& object_;
  std::string_view path_;
  std::string name_;
};

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

Json calibration_json(const DeviceInfo& device, const Calibration& c) {
  return {{"format", calibration_format},
          {"version", version},
          {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"device", {{"backend", device.backend}, {"name", device.name}, {"pci_bus_id", device.pci_bus_id}}},
          {"table", {{"cells", c.cells}, {"keys", c.keys}}},
          {"search", line_json(c.search)},
          {"change", line_json(c.change)}};
}

CalibrationRecord parse_calibration(std::string_view text, std::string_view path) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded())
    throw CalibrationError(fmt::format("{}: is no JSON; `tandem calibrate` makes such files", path));
  const Fields all(document, path, "");
  if (const std::string format = all.text("format"); format != calibration_format) {
    throw CalibrationError(fmt::format("{}: its format is {}, not {}: run `tandem calibrate` again", path,
                                       in_quotes(format), in_quotes(calibration_format)));
  }
  const Fields device = all.object("device"), table = all.object("table");
  return {.backend = device.text("backend"),
          .device = device.text("name"),
          .pci_bus_id = device.text("pci_bus_id"),
          .version = all.text("version"),
          .date = all.text("date"),
          .cells = table.count("cells"),
          .keys = table.count("keys"),
          .search = all.line("search"),
          .change = all.line("change")};
}

CalibrationRecord read_calibration(const std::string& path) {
  return parse_calibration(read_calibration_text(path), path);
}

std::string read_calibration_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(file_bytes_max + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof()))
    throw CalibrationError(fmt::format("{}: cannot be read: {}", path, reason(errno)));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > file_bytes_max) throw CalibrationError(fmt::format("{}: is larger than 1MiB", path));
  return text;
}

std::string calibration_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

void write_calibration(const Json& document, const std::string& path) {
  const auto fail = [&path](int error) {
    throw CalibrationError(fmt::format("{}: cannot be written: {}", path, reason(error)));
  };
  std::error_code error;
  if (const std::filesystem::path folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, error);
  if (error) fail(error.value());
  const std::string next = fmt::format("{}.{}", path, getpid());
  const std::string text = calibration_text(document) + '\n';
  std::FILE* const file = std::fopen(next.c_str(), "wx");
  if (file == nullptr) fail(errno);
  bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 &&
                    fsync(fileno(file)) == 0;
  int why = errno;
  if (std::fclose(file) != 0 && is_written) {
    is_written = false;
    why = errno;
  }
  if (is_written && std::rename(next.c_str(), path.c_str()) == 0) return;
  if (is_written) why = errno;
  unlink(next.c_str());
  fail(why);
}

void keep_calibration(const Json& document, const std::string& path, bool quiet) {
  try {
    write_calibration(document, path);
  } catch (const CalibrationError& error) {
    throw CommandError(EX_CANTCREAT, fmt::format("calibrate: {}", error.what()));
  }
  if (!quiet) fmt::print("kept in {}\n", path);
}

std::string calibration_path() {
  // NOLINTBEGIN(concurrency-mt-unsafe): before any other thread
  if (const char* const state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/')
    return fmt::format("{}/tandem/calibration.json", state);
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/')
    return fmt::format("{}/.local/state/tandem/calibration.json", home);
  // NOLINTEND(concurrency-mt-unsafe)
  return {};
}

void check_device(const CalibrationRecord& record, const DeviceInfo& device, std::string_view path) {
  const auto words = [](std::string_view backend, std::string_view name, std::string_view pci) {
    return fmt::format("{} {}{}", backend, in_quotes(name), pci.empty() ? "" : fmt::format(" at {}", in_quotes(pci)));
  };
  if (record.backend == device.backend && record.device == device.name && record.pci_bus_id == device.pci_bus_id)
    return;
  throw CalibrationError(fmt::format("{}: is of another device, {}; this one is {}: run `tandem calibrate` for it",
                                     path, words(record.backend, record.device, record.pci_bus_id),
                                     words(device.backend, device.name, device.pci_bus_id)));
}

}  // namespace tandem::cli
