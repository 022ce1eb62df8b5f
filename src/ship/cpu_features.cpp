#include "ship/cpu_features.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/subprocess.h"

namespace planish::ship {
namespace {

bool any_prefix(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view p) { return text.starts_with(p); });
}
bool any_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}
bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Registers 16 to 31, masks, and 512 bits: an encoding that AVX and AVX2 do not have.
bool evex(std::string_view operands) {
  if (has(operands, "%zmm") || has(operands, "%k") || has(operands, "{1to") || has(operands, "-sae}")) return true;
  for (const std::string_view name : {"%xmm", "%ymm"}) {
    for (auto at = operands.find(name); at != std::string_view::npos; at = operands.find(name, at + 1)) {
      const std::string_view number = operands.substr(at + 4, 2);
      if (number.size() == 2 && number[1] >= '0' && number[1] <= '9' && (number[0] != '1' || number[1] >= '6'))
        return true;
    }
  }
  return false;
}

void vector(std::string_view op, std::string_view rest, std::set<std::string>& out) {
  const bool wide = evex(rest);
  if (any_prefix(op, {"vpdpbusd", "vpdpwssd"})) {
    out.insert(wide ? "avx512_vnni" : "avx_vnni");
  } else if (any_prefix(op, {"vpermb", "vpermi2b", "vpermt2b", "vpmultishiftqb"})) {
    out.insert("avx512vbmi");
  } else if (any_prefix(op, {"vpshld", "vpshrd", "vpcompressb", "vpcompressw", "vpexpandb", "vpexpandw"})) {
    out.insert("avx512_vbmi2");
  } else if (any_of(op, {"vpopcntd", "vpopcntq"})) {
    out.insert("avx512_vpopcntdq");
  } else if (any_of(op, {"vpopcntb", "vpopcntw", "vpshufbitqmb"})) {
    out.insert("avx512_bitalg");
  } else if (any_prefix(op, {"vcvtne", "vdpbf16"})) {
    out.insert("avx512_bf16");
  } else if (any_prefix(op, {"vpmadd52"})) {
    out.insert("avx512ifma");
  } else if (any_prefix(op, {"vgf2p8"})) {
    out.insert("gfni");
  } else if (any_of(op, {"vcvtph2ps", "vcvtps2ph"})) {
    if (!wide) out.insert("f16c");
  } else if (op.ends_with("ph") || op.ends_with("sh") || op.ends_with("phx") || has(op, "ph2") || has(op, "sh2")) {
    out.insert("avx512_fp16");
  }
  if (wide || any_prefix(op, {"vpternlog", "vpmovm2", "vprol", "vpror", "valign"}) || op.ends_with("64x2")) {
    for (const char* set : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) out.insert(set);
    return;
  }
  out.insert("avx");
  if (any_prefix(op, {"vfmadd", "vfmsub", "vfnm"}))
    out.insert(has(op, "132") || has(op, "213") || has(op, "231") ? "fma" : "fma4");
  const bool integers = op.starts_with("vp") && !any_prefix(op, {"vperm2f128", "vpermilp"});
  if ((integers && has(rest, "%ymm")) ||
      any_prefix(op, {"vpbroadcast", "vbroadcasti", "vgather", "vpgather", "vperm2i128", "vpermps", "vpermpd", "vpermd",
                      "vpermq", "vpsllv", "vpsrlv", "vpsrav", "vinserti", "vextracti", "vpmaskmov", "vpblendd"}) ||
      (op.starts_with("vbroadcasts") && !has(rest, "(")))
    out.insert("avx2");
}

}  // namespace

std::set<std::string> cpu_features(std::string_view text) {
  std::set<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // "    1139:\tvaddps %ymm0,%ymm1,%ymm2": the address, then the instruction.
    const auto tab = line.find(":\t");
    if (tab == std::string_view::npos) continue;
    line.remove_prefix(tab + 2);
    for (const std::string_view prefix : {"lock ", "rep ", "repz ", "repnz ", "data16 ", "notrack ", "bnd "})
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    const auto stop = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view op = line.substr(0, stop), rest = line.substr(stop);
    const bool virtual_machines =
        any_prefix(op, {"verr", "verw", "vmcall", "vmlaunch", "vmread", "vmwrite", "vmx", "vmpt"});
    if ((op.starts_with('v') && !virtual_machines) || (op.starts_with('k') && has(rest, "%k"))) {
      vector(op, rest, out);
    } else if (any_of(op, {"andn", "bextr", "blsi", "blsmsk", "blsr", "tzcnt"})) {
      out.insert("bmi1");
    } else if (any_of(op, {"bzhi", "mulx", "pdep", "pext", "rorx", "sarx", "shlx", "shrx"})) {
      out.insert("bmi2");
    } else if (op.starts_with("lzcnt")) {
      out.insert("abm");
    } else if (op.starts_with("popcnt")) {
      out.insert("popcnt");
    } else if (op.starts_with("movbe")) {
      out.insert("movbe");
    } else if (any_of(op, {"extrq", "insertq", "movntss", "movntsd"})) {
      out.insert("sse4a");
    } else if (any_prefix(op, {"gf2p8"})) {
      out.insert("gfni");
    } else if (any_prefix(op, {"tdp", "tileload", "tilestore", "ldtilecfg", "tilezero"})) {
      out.insert("amx_tile");
    } else if (any_prefix(op, {"pshufb", "palignr", "pabs", "phadd", "phsub", "psign", "pmulhrsw", "pmaddubsw"})) {
      out.insert("ssse3");
    } else if (any_prefix(op, {"pcmpgtq", "crc32", "pcmpestr", "pcmpistr"})) {
      out.insert("sse4_2");
    } else if (any_prefix(op, {"pmovsx",   "pmovzx",    "pblend", "blend",   "pmulld",   "pmuldq",   "ptest",
                               "round",    "pinsrb",    "pinsrd", "pinsrq",  "pextrb",   "pextrd",   "pextrq",
                               "insertps", "extractps", "pminsb", "pmaxsb",  "pminsd",   "pmaxsd",   "pminud",
                               "pmaxud",   "pminuw",    "pmaxuw", "pcmpeqq", "packusdw", "movntdqa", "dpps"})) {
      out.insert("sse4_1");
    }
  }
  return out;
}

std::optional<std::set<std::string>> cpu_features_of(const std::filesystem::path& binary) {
  SpawnOptions options;
  options.command = {"objdump", "-d", "--no-show-raw-insn", binary.string()};
  options.env.emplace_back("LC_ALL", "C");
  options.whole_output = true;
  auto result = run_command(std::move(options), 60);
  if (!result.has_value() || !result->status.ok() || result->output.find(":\t") == std::string::npos)
    return std::nullopt;
  return cpu_features(result->output);
}

}  // namespace planish::ship
