// etcd as the registry, by its JSON gateway and libcurl's multi interface. A request that an endpoint does not answer
// fails, and the next one goes to the next endpoint.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cluster/gateway.hpp"
#include "cluster/registry.hpp"

namespace tandem::cluster {

struct EtcdOptions {
  std::vector<std::string> endpoints;  // http://host:port or https://host:port
  std::string fleet;
  Time request_limit{2'000};
  std::string user = {}, password = {};             // empty: no authentication
  std::string ca = {}, certificate = {}, key = {};  // PEM files; empty: the system's CAs, and no certificate
};

class EtcdRegistry final : public Registry {
 public:
  // Throws std::runtime_error when libcurl cannot be used.
  explicit EtcdRegistry(EtcdOptions options);
  ~EtcdRegistry() override;
  EtcdRegistry(const EtcdRegistry&) = delete;
  EtcdRegistry& operator=(const EtcdRegistry&) = delete;

  void send(RegistryRequest request) override;
  std::vector<RegistryReply> wait(std::vector<Wake>& wake, Time limit) override;

 private:
  struct Transfer;
  struct Curl;

  void begin(RegistryCall call, bool is_login, const GatewayRequest& request);
  void end(Transfer& transfer, int code);
  void end_login(long status, const std::string& body, const std::string& problem);
  void fail_waiting(const std::string& problem);

  const EtcdOptions options_;
  const std::string prefix_;
  std::unique_ptr<Curl> curl_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<RegistryRequest> waiting_;  // for a token
  std::vector<RegistryReply> replies_;
  std::string token_;
  std::size_t endpoint_ = 0;
  bool logs_in_ = false;
};

}  // namespace tandem::cluster
