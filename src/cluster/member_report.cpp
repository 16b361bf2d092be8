#include "cluster/member_report.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

namespace tandem::cluster {
namespace {

using Report = nlohmann::ordered_json;

constexpr std::size_t names_max = 16;       // of nodes held back
constexpr std::uint64_t report_age_s = 10;  // one is written each second

Report cut(const std::vector<std::string>& names) {
  Report json = Report::array();
  for (std::size_t i = 0; i < std::min(names.size(), names_max); ++i) json.push_back(names[i]);
  if (names.size() > names_max) json.push_back(std::to_string(names.size() - names_max) + " more");
  return json;
}

// The reports are values that others may have written, too.
bool says(const Report& json, const char* name) { return json.contains(name) && json.at(name) == true; }

bool is_old(const Report& json, std::uint64_t unix_s) {
  const bool is_number = json.contains("written") && json.at("written").is_number_unsigned();
  const std::uint64_t written = is_number ? json.at("written").get<std::uint64_t>() : 0;
  return written < unix_s && unix_s - written > report_age_s;
}

std::string line(const char* name, const std::string& value) {
  std::string text = std::string(name) + ' ';
  text.resize(std::max<std::size_t>(text.size(), 16), ' ');
  return text + value + '\n';
}

std::string shown(const Report& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Report& part : value) text += (text.empty() ? "" : ", ") + shown(part);
  return text;
}

}  // namespace

std::string to_json(const MemberReport& report) {
  const Membership::Status& s = report.status;
  Report json{{"registry", report.registry},
              {"registry_up", s.is_registry_up},
              {"state", name_of(s.state)},
              {"version", s.version},
              {"server_version", s.server_version},
              {"nodes", s.nodes},
              {"registry_failures", s.registry_failures},
              {"written", report.unix_s}};
  if (!report.name.empty())
    json.update({{"name", report.name},
                 {"in_list", s.is_in},
                 {"registered", s.is_registered},
                 {"name_taken", s.has_rival},
                 {"lease_seconds", s.lease_left.count() / 1000},
                 {"publishes", s.publishes},
                 {"held", cut(s.held)},
                 {"refused", cut(s.refused)}});
  return json.dump(-1, ' ', false, Report::error_handler_t::replace);
}

std::string to_metrics(const MemberReport& report) {
  const Membership::Status& s = report.status;
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, std::uint64_t value) {
    const std::string full = std::string("tandem_member_") + name;
    text += "# HELP " + full + ' ' + help + "\n# TYPE " + full + ' ' + type + '\n' + full + ' ' +
            std::to_string(value) + '\n';
  };
  add("version", "gauge", "version of the list in the registry; 0: none", s.version);
  add("nodes", "gauge", "nodes in the list", s.nodes);
  add("in_list", "gauge", "whether this node is in the list", s.is_in ? 1 : 0);
  add("up_to_date", "gauge", "whether the server has the list",
      s.version != 0 && s.version == s.server_version ? 1 : 0);
  add("lease_seconds", "gauge", "seconds that the lease is valid for",
      static_cast<std::uint64_t>(s.lease_left.count()) / 1000);
  add("registry_up", "gauge", "whether the registry answers", s.is_registry_up ? 1 : 0);
  add("registry_failures_total", "counter", "requests that the registry did not answer", s.registry_failures);
  add("publishes_total", "counter", "lists that this member has published", s.publishes);
  add("held_removals", "gauge", "nodes that are gone and held in the list", s.held.size());
  add("refused_joins", "gauge", "nodes for which the list has no room", s.refused.size());
  return text;
}

std::string to_text(const std::string& json, std::uint64_t unix_s) {
  const Report report = Report::parse(json, nullptr, false);
  if (!report.is_object()) return {};
  std::string text;
  for (const auto& [name, value] : report.items()) {
    const bool is_empty = value.is_array() && value.empty();
    if (name != "written" && !is_empty) text += line(name.c_str(), shown(value));
  }
  if (is_old(report, unix_s)) text += "The member has not told anything for a while: it does not run.\n";
  return text;
}

bool is_well(const std::string& json, std::uint64_t unix_s) {
  const Report report = Report::parse(json, nullptr, false);
  return report.is_object() && (!report.contains("name") || says(report, "in_list")) && says(report, "registry_up") &&
         !is_old(report, unix_s);
}

}  // namespace tandem::cluster
