#include "ir/args_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace planish::ir {
namespace {

Result<ArgData> one_of(const Json& object, const std::string& key, const RefNames& refs, int id_limit, ErrorKind kind,
                       const std::string& where) {
  const Json& v = object.at(key);
  const auto bad = [&](const std::string& wanted) {
    return fail(kind, fmt::format("{}: `{}` must be {}", where, key, wanted));
  };
  const auto valid_id = [&](const Json& id) {
    return id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() < id_limit;
  };
  const auto id_text = fmt::format("an id below {}", id_limit);
  if (key == refs.one) {
    if (!valid_id(v)) return bad(id_text);
    return ArgData(ValueRef{v.get<int>()});
  }
  if (key == refs.many) {
    if (!v.is_array()) return bad("a list of ids");
    ValueList list;
    for (const Json& id : v) {
      if (!id.is_null() && !valid_id(id)) return bad("a list of ids below " + std::to_string(id_limit));
      list.ids.push_back(id.is_null() ? std::nullopt : std::optional<int>(id.get<int>()));
    }
    return ArgData(std::move(list));
  }
  if (key == "int") {
    if (!v.is_number_integer()) return bad("an integer");
    return ArgData(v.get<std::int64_t>());
  }
  if (key == "bool") {
    if (!v.is_boolean()) return bad("true or false");
    return ArgData(v.get<bool>());
  }
  if (key == "none") {
    if (!v.is_boolean() || !v.get<bool>()) return bad("true");
    return ArgData(None{});
  }
  if (key == "float") {
    const auto value = v.is_string() ? float_from_hex(v.get_ref<const std::string&>()) : std::nullopt;
    if (!value) return bad("a hexadecimal float");
    return ArgData(*value);
  }
  if (key == "str" || key == "dtype" || key == "enum") {
    if (!v.is_string()) return bad("a string");
    auto text = v.get<std::string>();
    if (key == "dtype") return ArgData(DTypeArg{std::move(text)});
    if (key == "enum") return ArgData(EnumArg{std::move(text)});
    return ArgData(std::move(text));
  }
  if (!v.is_array()) return bad("a list");
  if (key == "ints") {
    std::vector<std::int64_t> list;
    for (const Json& item : v) {
      if (!item.is_number_integer()) return bad("a list of integers");
      list.push_back(item.get<std::int64_t>());
    }
    return ArgData(std::move(list));
  }
  if (key == "bools") {
    std::vector<bool> list;
    for (const Json& item : v) {
      if (!item.is_boolean()) return bad("a list of booleans");
      list.push_back(item.get<bool>());
    }
    return ArgData(std::move(list));
  }
  std::vector<double> list;
  for (const Json& item : v) {
    const auto value = item.is_string() ? float_from_hex(item.get_ref<const std::string&>()) : std::nullopt;
    if (!value) return bad("a list of hexadecimal floats");
    list.push_back(*value);
  }
  return ArgData(std::move(list));
}

bool known_key(const std::string& key, const RefNames& refs) {
  static const std::vector<std::string> keys{"int",    "float", "bool",  "str",  "ints",
                                             "floats", "bools", "dtype", "enum", "none"};
  return key == refs.one || key == refs.many || std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

Result<std::vector<Arg>> parse_args(const Json& json, const RefNames& refs, int id_limit, ErrorKind kind,
                                    const std::string& where) {
  if (!json.is_array()) return fail(kind, where + ": `args` must be a list");
  std::vector<Arg> args;
  for (const Json& item : json) {
    const std::string place = fmt::format("{}.args[{}]", where, args.size());
    if (!item.is_object() || item.size() != 2 || !item.contains("name") || !item.at("name").is_string()) {
      return fail(kind, place + " must have `name` and exactly one value");
    }
    for (const auto& [key, value] : item.items()) {
      if (key == "name") continue;
      if (!known_key(key, refs)) return fail(kind, fmt::format("{}: unknown field `{}`", place, key));
      PLANISH_TRY(ArgData data, one_of(item, key, refs, id_limit, kind, place));
      args.push_back({item.at("name").get<std::string>(), std::move(data)});
    }
  }
  return args;
}

Result<std::vector<std::optional<int>>> parse_outs(const Json& json, int id_limit, ErrorKind kind,
                                                   const std::string& where) {
  if (!json.is_array()) return fail(kind, where + ": `outs` must be a list");
  std::vector<std::optional<int>> outs;
  for (const Json& id : json) {
    if (id.is_null()) {
      outs.push_back(std::nullopt);
    } else if (id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() < id_limit) {
      outs.push_back(id.get<int>());
    } else {
      return fail(kind, fmt::format("{}: `outs` must hold ids below {} or null", where, id_limit));
    }
  }
  return outs;
}

Json args_to_json(const std::vector<Arg>& args, const RefNames& refs) {
  Json list = Json::array();
  for (const Arg& arg : args) {
    Json item = Json::object();
    item["name"] = arg.name;
    std::visit(
        [&]<typename T>(const T& data) {
          if constexpr (std::is_same_v<T, None>) {
            item["none"] = true;
          } else if constexpr (std::is_same_v<T, ValueRef>) {
            item[refs.one] = data.id;
          } else if constexpr (std::is_same_v<T, ValueList>) {
            Json ids = Json::array();
            for (const auto& id : data.ids) ids.push_back(id ? Json(*id) : Json(nullptr));
            item[refs.many] = std::move(ids);
          } else if constexpr (std::is_same_v<T, std::int64_t>) {
            item["int"] = data;
          } else if constexpr (std::is_same_v<T, double>) {
            item["float"] = float_to_hex(data);
          } else if constexpr (std::is_same_v<T, bool>) {
            item["bool"] = data;
          } else if constexpr (std::is_same_v<T, std::string>) {
            item["str"] = data;
          } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            item["ints"] = data;
          } else if constexpr (std::is_same_v<T, std::vector<double>>) {
            Json values = Json::array();
            for (const double value : data) values.push_back(float_to_hex(value));
            item["floats"] = std::move(values);
          } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
            item["bools"] = data;
          } else if constexpr (std::is_same_v<T, DTypeArg>) {
            item["dtype"] = data.name;
          } else {
            item["enum"] = data.name;
          }
        },
        arg.data);
    list.push_back(std::move(item));
  }
  return list;
}

std::string float_to_hex(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%a", value);
  return buffer;
}

std::string float_to_hex(float value) {
  return float_to_hex(static_cast<double>(value));
}

std::optional<double> float_from_hex(std::string_view text) {
  if (text == "nan") return std::nan("");
  if (text == "inf") return HUGE_VAL;
  if (text == "-inf") return -HUGE_VAL;
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (!digits.starts_with("0x") || digits.find_first_not_of("0123456789abcdefABCDEFxp.+-") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size()) return std::nullopt;
  return value;
}

}  // namespace planish::ir
