#pragma once
#include <string_view>

#include "network_builder.h"

namespace perfpred {

/// Each builds a network of its families if the (lower-case) name is one of them, and says whether it is.
bool build_cifar_cnn(NetworkBuilder& builder, const Workload& workload);
bool build_resnet(NetworkBuilder& builder, std::string_view name);

}  // namespace perfpred
