#include "session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fault.h"
#include "limits.h"
#include "planish_target.h"

namespace planish::runner {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t max_request_descriptors = 1024;  // of one request; they arrive in batches of 64
constexpr std::int64_t most_threads = 4096;

[[noreturn]] void refuse(const std::string& message, const std::string& hint = {}) {
  throw Refusal{"bad_argument", message, hint};
}
[[noreturn]] void refuse(const prt_error& error) {
  throw Refusal{error.kind, error.message, {}};
}

const Json& need(const Json& params, const char* name) {
  const auto it = params.find(name);
  if (it == params.end()) refuse(std::string("`") + name + "` is missing");
  return *it;
}
std::string need_text(const Json& params, const char* name) {
  const Json& value = need(params, name);
  if (!value.is_string()) refuse(std::string("`") + name + "` must be a string");
  return value.get<std::string>();
}
std::int64_t integer(const Json& value, const char* name, std::int64_t lo, std::int64_t hi) {
  if (!value.is_number_integer()) refuse(std::string("`") + name + "` must be an integer");
  const auto n = value.get<std::int64_t>();
  if (n < lo || n > hi) refuse(std::string("`") + name + "` is out of range");
  return n;
}
std::int64_t need_integer(const Json& params, const char* name, std::int64_t lo = 0, std::int64_t hi = INT64_MAX) {
  return integer(need(params, name), name, lo, hi);
}
std::int64_t optional_integer(const Json& params, const char* name, std::int64_t otherwise, std::int64_t lo,
                              std::int64_t hi) {
  const auto it = params.find(name);
  return it == params.end() ? otherwise : integer(*it, name, lo, hi);
}
double optional_number(const Json& params, const char* name, double otherwise) {
  const auto it = params.find(name);
  if (it == params.end()) return otherwise;
  if (!it->is_number() || !std::isfinite(it->get<double>()) || it->get<double>() < 0)
    refuse(std::string("`") + name + "` must be a number >= 0");
  return it->get<double>();
}

}  // namespace

Session::Session(std::string device_option, Json sandbox, std::function<int()> take_fd)
    : device_option_(std::move(device_option)),
      sandbox_(std::make_unique<Json>(std::move(sandbox))),
      take_fd_(std::move(take_fd)) {
  if (const auto place = rt::find_place(device_option_)) device_ = place->device;
}

Session::~Session() {
  for (auto& [name, data] : data_) release(&data);
}

std::string Session::answer(const std::string& line) {
  Json out = {{"id", nullptr}};
  try {
    const Json request = Json::parse(line, nullptr, false);
    if (request.is_discarded() || !request.is_object()) refuse("a request is one JSON object on one line");
    if (const auto id = request.find("id"); id != request.end()) out["id"] = *id;
    for (auto left = optional_integer(request, "fds", 0, 0, max_request_descriptors); left > 0; --left) {
      const int fd = take_fd_();
      if (fd < 0) refuse("fewer descriptors arrived than `fds` says");
      descriptors_.push_back(fd);
    }
    const std::string method = need_text(request, "method");
    const auto params = request.find("params");
    if (params != request.end() && !params->is_object()) refuse("`params` must be an object");
    out["result"] = dispatch(method, params == request.end() ? Json::object() : *params);
  } catch (const Refusal& refusal) {
    out["error"] = {{"kind", refusal.kind}, {"message", refusal.message}};
    if (!refusal.hint.empty()) out["error"]["hint"] = refusal.hint;
  } catch (const std::exception& e) {
    out["error"] = {{"kind", "bad_argument"}, {"message", e.what()}};
  }
  for (const int fd : descriptors_) close(fd);  // what the method did not want
  descriptors_.clear();
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json Session::dispatch(const std::string& method, const Json& params) {
  if (method == "hello") return hello(params);
  if (method == "load") return load(params);
  if (method == "bind") return bind(params);
  if (method == "run") return run(params);
  if (method == "time") return time(params);
  if (method == "unbind") return unbind(params);
  if (method == "unload") return unload(params);
  refuse("unknown method `" + method + "`", "this runner knows hello, load, bind, run, time, unbind and unload");
}

Json Session::hello(const Json& params) {
  if (const auto device = params.find("device"); device != params.end()) {
    const std::string wanted = need_text(params, "device");
    const bool same = wanted == device_option_ || (device_ >= 0 && wanted == rt::target_of(device_).name);
    if (!same) refuse("this runner was started for `" + device_option_ + "`, not for `" + wanted + "`");
  }
  prt_device_info info{};
  prt_error error{};
  if (prt_device_info_get(device_, &info, &error) != 0) refuse(error);
  return {{"kind", "native"},
          {"device",
           {{"kind", std::string(rt::target_of(device_).name)},
            {"name", info.name},
            {"arch", info.arch},
            {"uuid", info.uuid},
            {"sms", info.sms},
            {"l2_bytes", info.l2_bytes},
            {"shared_bytes_optin", info.shared_bytes_optin},
            {"memory", info.memory_bytes},
            {"driver_version", info.driver_version}}},
          {"sandbox", *sandbox_}};
}

Json Session::load(const Json& params) {
  const Json& document = need(params, "program");
  if (!document.is_object()) refuse("`program` must be an object");
  std::vector<std::string> paths;
  const Json& binaries = need(params, "binaries");
  if (!binaries.is_array()) refuse("`binaries` must be a list of paths");
  for (const Json& path : binaries) {
    if (!path.is_string()) refuse("`binaries` must be a list of paths");
    paths.push_back(path.get<std::string>());
  }
  std::vector<const char*> names;
  for (const std::string& path : paths) names.push_back(path.c_str());
  const std::string text = document.dump();
  prt_program* loaded = nullptr;
  prt_error error{};
  if (prt_program_load(device_, text.data(), text.size(), names.data(), static_cast<int>(names.size()), &loaded,
                       &error) != 0)
    refuse(error);
  Program program;
  program.program.reset(loaded);
  for (const Json& buffer : document.at("buffers")) program.roles.push_back(buffer.at("role").get<std::string>());
  program.steps = static_cast<int>(document.at("steps").size());
  Json kernels = Json::array();
  for (int i = 0; i < static_cast<int>(names.size()); ++i) {
    prt_kernel_info info{};
    if (prt_program_kernel_info(loaded, i, &info, &error) != 0) refuse(error);
    kernels.push_back({{"registers", info.registers},
                       {"local_bytes", info.local_bytes},
                       {"shared_bytes", info.shared_bytes},
                       {"max_threads", info.max_threads}});
  }
  const std::int64_t handle = next_handle_++;
  programs_[handle] = std::move(program);
  return {{"handle", handle}, {"kernels", kernels}};
}

Session::Program& Session::program_of(const Json& params) {
  const std::int64_t handle = need_integer(params, "handle");
  const auto it = programs_.find(handle);
  if (it == programs_.end()) refuse("there is no program with handle " + std::to_string(handle));
  return it->second;
}

Session::Data& Session::data_of(const std::string& name, std::int64_t handle) {
  const auto it = data_.find(name);
  if (it == data_.end()) refuse("there is no data `" + name + "`");
  if (it->second.handle != handle) refuse("data `" + name + "` was bound to another program");
  return it->second;
}

void Session::bind_one(const Json& description, const Program& program, Data* data) {
  if (!description.is_object()) refuse("a buffer description must be an object");
  if (descriptors_.empty()) refuse("fewer descriptors arrived than buffers were described");
  const int fd = descriptors_.front();
  descriptors_.pop_front();
  prt_buffer* imported = nullptr;
  prt_error error{};
  std::size_t index = 0;
  int writable = 0;
  try {
    index = static_cast<std::size_t>(
        need_integer(description, "buffer", 0, static_cast<std::int64_t>(program.roles.size()) - 1));
    if (data->pointers[index] != nullptr) refuse("buffer " + std::to_string(index) + " is bound twice");
    if (need_text(description, "device") != rt::target_of(device_).name)
      refuse("the buffer lives on another kind of device");
    if (!need(description, "writable").is_boolean()) refuse("`writable` must be true or false");
    writable = description["writable"].get<bool>() ? 1 : 0;
    need_integer(description, "bytes"), need_integer(description, "offset"), need_integer(description, "map_bytes");
  } catch (...) {
    close(fd);
    throw;
  }
  const auto number = [&](const char* name) { return static_cast<std::uint64_t>(need_integer(description, name)); };
  // Mapping makes the pages resident: they must be exempt before the memory watch can see them. release() takes it
  // back, also after a refusal.
  if (const auto mapped = static_cast<std::int64_t>(number("map_bytes"));
      device_ < 0 && mapped < std::int64_t{1} << 48) {
    data->bytes += mapped;
    exempt_bytes(mapped);
  }
  if (prt_buffer_import(device_, fd, number("bytes"), number("offset"), number("map_bytes"), writable, &imported,
                        &error) != 0)
    refuse(error);
  data->buffers.emplace_back(imported);
  data->pointers[index] = prt_buffer_data(imported);
  if (device_ >= 0) return;
  // A reader of the fault line cares whether the address was for reading or for writing: params and consts are inputs
  // to it.
  const std::string& role = program.roles[index];
  const std::string label = (role == "param" || role == "const" ? "input"
                             : role == "state"                  ? "output"
                                                                : role) +
                            ":" + std::to_string(index);
  const std::uint64_t start = reinterpret_cast<std::uint64_t>(prt_buffer_data(imported)) - prt_buffer_offset(imported);
  const std::uint64_t end = start + prt_buffer_map_bytes(imported), guard = prt_buffer_guard_bytes(imported);
  data->ranges.push_back(name_range(start, end, label.c_str()));
  data->ranges.push_back(name_range(start - guard, start, ("guard:" + label).c_str()));
  data->ranges.push_back(name_range(end, end + guard, ("guard:" + label).c_str()));
}

Json Session::bind(const Json& params) {
  Program& program = program_of(params);
  const std::string name = need_text(params, "data");
  if (data_.contains(name)) refuse("data `" + name + "` is bound already", "unbind it first");
  const Json& buffers = need(params, "buffers");
  if (!buffers.is_array()) refuse("`buffers` must be a list");
  Data data;
  data.handle = need_integer(params, "handle");
  data.pointers.assign(program.roles.size(), nullptr);
  try {
    for (const Json& description : buffers) bind_one(description, program, &data);
    for (std::size_t i = 0; i < program.roles.size(); ++i) {
      if (data.pointers[i] == nullptr && program.roles[i] != "temp") {
        refuse("buffer " + std::to_string(i) + " (" + program.roles[i] + ") is not bound");
      }
    }
  } catch (...) {
    release(&data);
    throw;
  }
  data_[name] = std::move(data);
  return Json::object();
}

Json Session::run(const Json& params) {
  Program& program = program_of(params);
  Data& data = data_of(need_text(params, "data"), need_integer(params, "handle"));
  prt_error error{};
  const auto start = std::chrono::steady_clock::now();
  const int n = static_cast<int>(data.pointers.size());
  const int before = prt_threads(static_cast<int>(optional_integer(params, "threads", 0, 0, most_threads)));
  const int failed = prt_program_run(program.program.get(), data.pointers.data(), n, 0, program.steps, nullptr, &error);
  prt_threads(before);
  if (failed != 0) refuse(error);
  if (prt_synchronize(device_, &error) != 0) refuse(error);
  return {{"ms", std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()}};
}

Json Session::time(const Json& params) {
  Program& program = program_of(params);
  const std::int64_t handle = need_integer(params, "handle");
  const Json& names = need(params, "data");
  if (!names.is_array() || names.empty()) refuse("`data` must be a list of at least one name");
  std::vector<void* const*> sets;
  for (const Json& name : names) {
    if (!name.is_string()) refuse("`data` must be a list of names");
    sets.push_back(data_of(name.get<std::string>(), handle).pointers.data());
  }
  const std::int64_t max_runs = optional_integer(params, "max_runs", 200, 1, 1000000);
  const std::int64_t min_runs = optional_integer(params, "min_runs", std::min<std::int64_t>(10, max_runs), 1, max_runs);
  const std::int64_t flush = optional_integer(params, "flush_bytes", 0, 0, std::int64_t{1} << 34);
  std::vector<double> samples(static_cast<std::size_t>(max_runs));
  prt_timing timing{};
  prt_error error{};
  if (prt_program_time(program.program.get(), sets.data(), static_cast<int>(sets.size()),
                       static_cast<int>(program.roles.size()), min_runs, max_runs,
                       optional_number(params, "max_seconds", 10), optional_number(params, "interval", 0.01), flush,
                       samples.data(), &timing, &error) != 0) {
    refuse(error);
  }
  samples.resize(static_cast<std::size_t>(timing.runs));
  return {{"samples_ms", samples},
          {"median_ms", timing.median_ms},
          {"lo_ms", timing.lo_ms},
          {"hi_ms", timing.hi_ms},
          {"host_us", timing.host_us}};
}

Json Session::unbind(const Json& params) {
  const std::string name = need_text(params, "data");
  const auto it = data_.find(name);
  if (it == data_.end()) refuse("there is no data `" + name + "`");
  release(&it->second);
  data_.erase(it);
  return Json::object();
}

Json Session::unload(const Json& params) {
  program_of(params);
  const std::int64_t handle = need_integer(params, "handle");
  for (auto it = data_.begin(); it != data_.end();) {
    if (it->second.handle == handle) release(&it->second);
    it = it->second.handle == handle ? data_.erase(it) : std::next(it);
  }
  programs_.erase(handle);
  return Json::object();
}

void Session::release(Data* data) {
  for (const int slot : data->ranges) forget_range(slot);
  data->ranges.clear();
  data->buffers.clear();
  exempt_bytes(-data->bytes);
  data->bytes = 0;
}

}  // namespace planish::runner
