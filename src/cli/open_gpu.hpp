// The accelerators that the settings ask for.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "device/device.hpp"

namespace tandem::cli {

// None: there is none, or not all of them can be used; `say` is told why when they were asked for, as the store serves
// without.
std::vector<std::shared_ptr<Device>> open_gpus(const Settings& settings,
                                               const std::function<void(std::string_view)>& say);

}  // namespace tandem::cli
