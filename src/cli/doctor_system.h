#pragma once

#include <filesystem>
#include <vector>

#include "cli/doctor_checks.h"

/// The checks by what they look at. Each gives one line of doctor's answer.
namespace planish::cli {

/// Driver and devices through libcuda, the driver's version through NVML.
std::vector<Check> check_gpu();
/// `site_packages`: where pip leaves NVIDIA's wheels.
Check check_nvrtc(const std::vector<std::filesystem::path>& site_packages);
Check check_user_namespaces();
/// Whether a guest can have a /tmp of its own: mounts that it alone sees.
Check check_private_tmp();
Check check_landlock();
/// Whether system calls of guests can be filtered.
Check check_seccomp();
/// Who solutions of others run as: whoever starts the command, without that user's privileges.
Check check_guest_user();
/// A file can be made in the folder, or in the nearest one above it that exists.
Check check_writable(const std::string& name, const std::filesystem::path& folder, const std::string& advice);

}  // namespace planish::cli
