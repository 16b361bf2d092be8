#include "cluster/etcd_registry.hpp"

#include <curl/curl.h>
#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace tandem::cluster {
namespace {

constexpr long connect_limit_ms = 1'000, keep_alive_s = 5;

}  // namespace

struct EtcdRegistry::Curl {
  Curl() : global(curl_global_init(CURL_GLOBAL_DEFAULT)), multi(curl_multi_init()) {}
  ~Curl() {
    curl_multi_cleanup(multi);
    curl_global_cleanup();
  }
  Curl(const Curl&) = delete;
  Curl& operator=(const Curl&) = delete;

  CURLcode global;
  CURLM* multi;
};

struct EtcdRegistry::Transfer {
  RegistryCall call{};
  bool is_login = false;
  std::size_t endpoint = 0;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::string asked, answer;
  WatchReader watch;
  bool has_changed = false, has_ended = false;

  // Bytes that were taken: fewer end the transfer.
  static std::size_t take(const char* bytes, std::size_t size, std::size_t count, void* context) {
    Transfer& transfer = *static_cast<Transfer*>(context);
    const std::size_t length = size * count;
    long status = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (transfer.call == RegistryCall::watch && !transfer.is_login && status == 200) {
      const WatchReader::Seen seen = transfer.watch.read({bytes, length});
      transfer.has_changed = transfer.has_changed || seen.has_changed;
      transfer.has_ended = transfer.has_ended || seen.has_ended;
      return transfer.has_ended ? 0 : length;
    }
    if (transfer.answer.size() + length > gateway_bytes_max) return 0;
    transfer.answer.append(bytes, length);
    return length;
  }
};

EtcdRegistry::EtcdRegistry(EtcdOptions options)
    : options_(std::move(options)), prefix_(key_prefix(options_.fleet)), curl_(std::make_unique<Curl>()) {
  if (curl_->global != CURLE_OK || curl_->multi == nullptr) throw std::runtime_error("libcurl cannot be used");
}

EtcdRegistry::~EtcdRegistry() {
  for (const auto& transfer : transfers_) {
    curl_multi_remove_handle(curl_->multi, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
  }
}

void EtcdRegistry::send(RegistryRequest request) {
  if (options_.user.empty() || !token_.empty()) return begin(request.call, false, gateway_request(request, prefix_));
  waiting_.push_back(std::move(request));
  if (std::exchange(logs_in_, true)) return;
  begin(RegistryCall::read, true, authenticate_request(options_.user, options_.password));
}

void EtcdRegistry::begin(RegistryCall call, bool is_login, const GatewayRequest& request) {
  auto made = std::make_unique<Transfer>();
  Transfer& transfer = *made;
  transfer.call = call;
  transfer.is_login = is_login;
  transfer.endpoint = endpoint_;
  transfer.asked = request.body;
  transfer.easy = curl_easy_init();
  if (transfer.easy == nullptr) {
    if (is_login) return end_login(0, {}, "libcurl has no memory");
    replies_.push_back({.call = call, .problem = "libcurl has no memory"});
    return;
  }
  transfer.headers = curl_slist_append(nullptr, "Content-Type: application/json");
  if (!token_.empty() && !is_login)
    transfer.headers = curl_slist_append(transfer.headers, ("Authorization: " + token_).c_str());
  const std::string url = options_.endpoints[endpoint_] + request.path;
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(transfer.easy, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PROXY, "");  // not what the environment says
  set(CURLOPT_HTTPHEADER, transfer.headers);
  set(CURLOPT_POSTFIELDSIZE, static_cast<long>(transfer.asked.size()));
  set(CURLOPT_POSTFIELDS, transfer.asked.c_str());
  set(CURLOPT_WRITEFUNCTION, &Transfer::take);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_PRIVATE, &transfer);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, connect_limit_ms);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, keep_alive_s);
  set(CURLOPT_TCP_KEEPINTVL, keep_alive_s);
  if (call != RegistryCall::watch || is_login)
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(options_.request_limit.count()));
  if (!options_.ca.empty()) set(CURLOPT_CAINFO, options_.ca.c_str());
  if (!options_.certificate.empty()) set(CURLOPT_SSLCERT, options_.certificate.c_str());
  if (!options_.key.empty()) set(CURLOPT_SSLKEY, options_.key.c_str());
  curl_multi_add_handle(curl_->multi, transfer.easy);
  transfers_.push_back(std::move(made));
}

void EtcdRegistry::fail_waiting(const std::string& problem) {
  for (const RegistryRequest& request : std::exchange(waiting_, {}))
    replies_.push_back({.call = request.call, .problem = problem});
}

void EtcdRegistry::end_login(long status, const std::string& body, const std::string& problem) {
  logs_in_ = false;
  token_ = read_token(status, body);
  if (token_.empty())
    return fail_waiting(problem.empty() ? "etcd refuses the user " + options_.user + " or its password" : problem);
  for (RegistryRequest& request : std::exchange(waiting_, {})) send(std::move(request));
}

void EtcdRegistry::end(Transfer& transfer, int code) {
  long status = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  std::string problem;
  if (code != CURLE_OK && !transfer.has_ended)
    problem = options_.endpoints[transfer.endpoint] + ": " + curl_easy_strerror(static_cast<CURLcode>(code));
  // An endpoint that has no quorum answers 503, or not at all.
  if ((!problem.empty() || status >= 500) && transfer.endpoint == endpoint_)
    endpoint_ = (endpoint_ + 1) % options_.endpoints.size();
  if (transfer.is_login) return end_login(status, transfer.answer, problem);
  if (wants_token(status, transfer.answer)) token_.clear();
  RegistryReply reply{.call = transfer.call, .problem = problem};
  if (transfer.call == RegistryCall::watch) {
    reply.problem = problem.empty() ? "the watch has ended" : problem;
  } else if (problem.empty()) {
    reply = read_gateway_reply(transfer.call, prefix_, status, transfer.answer);
    if (!reply.problem.empty()) reply.problem = options_.endpoints[transfer.endpoint] + ": " + reply.problem;
  }
  replies_.push_back(std::move(reply));
}

std::vector<RegistryReply> EtcdRegistry::wait(std::vector<Wake>& wake, Time limit) {
  std::vector<curl_waitfd> fds;
  for (const Wake& w : wake)
    fds.push_back({w.fd, static_cast<short>((w.reads ? CURL_WAIT_POLLIN : 0) | (w.writes ? CURL_WAIT_POLLOUT : 0)), 0});
  int running = 0;
  curl_multi_perform(curl_->multi, &running);
  int left = 0;
  const bool has_more = !replies_.empty() || running != static_cast<int>(transfers_.size());
  const auto limit_ms = static_cast<int>(std::clamp<std::int64_t>(limit.count(), 0, 60'000));
  curl_multi_poll(curl_->multi, fds.data(), static_cast<unsigned>(fds.size()), has_more ? 0 : limit_ms, nullptr);
  curl_multi_perform(curl_->multi, &running);
  while (const CURLMsg* const message = curl_multi_info_read(curl_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    end(*transfer, code);
    curl_multi_remove_handle(curl_->multi, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    std::erase_if(transfers_, [&](const auto& t) { return t.get() == transfer; });
  }
  for (const auto& transfer : transfers_) {
    if (std::exchange(transfer->has_changed, false))
      replies_.push_back({.call = RegistryCall::watch, .outcome = RegistryOutcome::done});
  }
  for (std::size_t i = 0; i < wake.size(); ++i) {
    wake[i].reads = (fds[i].revents & ~CURL_WAIT_POLLOUT) != 0;
    wake[i].writes = (fds[i].revents & CURL_WAIT_POLLOUT) != 0;
  }
  return std::exchange(replies_, {});
}

}  // namespace tandem::cluster
