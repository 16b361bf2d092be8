// A list that a person or a ConfigMap writes: a file with the two lines that clients read. Nobody registers in it.
#pragma once
#include <string>
#include <vector>

#include "cluster/registry.hpp"

namespace tandem::cluster {

class FileRegistry final : public Registry {
 public:
  explicit FileRegistry(std::string path) : path_(std::move(path)) {}
  void send(RegistryRequest request) override;
  std::vector<RegistryReply> wait(std::vector<Wake>& wake, Time limit) override;

 private:
  RegistryReply read();

  const std::string path_;
  std::int64_t revision_ = 0;  // rises with each change
  std::string text_;
  std::vector<RegistryReply> replies_;
};

// poll() of `wake`, for the registries that have no descriptors of their own.
void wait_for(std::vector<Registry::Wake>& wake, Time limit);

}  // namespace tandem::cluster
