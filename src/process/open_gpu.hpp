// Opens the accelerators that the settings request.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "options/options.hpp"

namespace tandem::cli {

// Empty: there is none, or not all of them are usable. If they were requested explicitly, `say` receives the reason,
// and the store serves without them.
std::vector<std::shared_ptr<Device>> open_gpus(const Settings& settings,
                                               const std::function<void(std::string_view)>& say);

}  // namespace tandem::cli
