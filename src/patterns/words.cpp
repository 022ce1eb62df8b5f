#include "patterns/words.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace planish::patterns {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_word(char c) {
  return is_digit(c) || is_upper(c) || is_lower(c);
}

/// Runs of letters and digits, split where lower case turns into upper ("TmaWarp") and before the last of several
/// upper-case letters that a lower-case one follows ("TMAWarp"), in lower case.
std::vector<std::string> split(std::string_view text, std::size_t limit) {
  std::vector<std::string> out;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word.size() <= 40 && out.size() < limit) out.push_back(word);
    word.clear();
  };
  for (std::size_t i = 0; i < text.size() && out.size() < limit; ++i) {
    const char c = text[i];
    if (!is_word(c)) {
      end_word();
      continue;
    }
    const bool after_lower = i > 0 && (is_lower(text[i - 1]));
    const bool after_upper = i > 0 && is_upper(text[i - 1]);
    const bool before_lower = i + 1 < text.size() && is_lower(text[i + 1]);
    // "Sm90Gemm" as well: a digit, then an upper-case letter that begins a word.
    const bool after_digit = i > 0 && is_digit(text[i - 1]);
    if (is_upper(c) && (after_lower || ((after_upper || after_digit) && before_lower && word.size() > 1))) end_word();
    word += static_cast<char>(is_upper(c) ? c - 'A' + 'a' : c);
  }
  end_word();
  return out;
}

/// Several words, and what they are read as; the longest that fits is taken.
struct Phrase {
  std::string_view from, to;
};
constexpr std::array phrases{Phrase{"split k", "splitk"},
                             Phrase{"stream k", "streamk"},
                             Phrase{"splitk parallel", "splitk"},
                             Phrase{"warp specialized", "warpspecialized"},
                             Phrase{"warp specialised", "warpspecialized"},
                             Phrase{"warp specialization", "warpspecialized"},
                             Phrase{"ping pong", "pingpong"},
                             Phrase{"layer norm", "layernorm norm"},
                             Phrase{"rms norm", "rmsnorm norm"},
                             Phrase{"group norm", "groupnorm norm"},
                             Phrase{"batch norm", "batchnorm norm"},
                             Phrase{"l2 norm", "l2norm norm"},
                             Phrase{"l2 normalize", "l2norm norm"},
                             Phrase{"l2 normalise", "l2norm norm"},
                             Phrase{"poly norm", "polynorm norm"},
                             Phrase{"instance norm", "instancenorm norm"},
                             Phrase{"batch statistics", "batchnorm statistics"},
                             Phrase{"cross entropy", "crossentropy loss"},
                             Phrase{"kl div", "kldiv loss"},
                             Phrase{"kl divergence", "kldiv loss"},
                             Phrase{"jensen shannon", "jsd"},
                             Phrase{"jensen shannon divergence", "jsd loss"},
                             Phrase{"total variation", "tvd"},
                             Phrase{"multi head attention", "attention multihead"},
                             Phrase{"multihead attention", "attention multihead"},
                             Phrase{"flash attention", "attention flash"},
                             Phrase{"flash attn", "attention flash"},
                             Phrase{"scaled dot product attention", "attention"},
                             Phrase{"multi head latent attention", "mla attention"},
                             Phrase{"head latent attention", "mla attention"},
                             Phrase{"native sparse attention", "nsa attention blocksparse"},
                             Phrase{"mixed input", "mixedinput"},
                             Phrase{"mixed dtype", "mixedinput"},
                             Phrase{"mixed precision", "mixedinput"},
                             Phrase{"block scaled", "blockscaled"},
                             Phrase{"block scale", "blockscaled"},
                             Phrase{"blockscaled tensor op", "blockscaled"},
                             Phrase{"block wise", "blockwise"},
                             Phrase{"group wise", "groupwise"},
                             Phrase{"top k", "topk"},
                             Phrase{"rank k", "rankk"},
                             Phrase{"rank 2k", "rank2k"},
                             Phrase{"rank 2 k", "rank2k"},
                             Phrase{"syr2k", "rank2k"},
                             Phrase{"ptr array", "ptrarray"},
                             Phrase{"pointer array", "ptrarray"},
                             Phrase{"array of pointers", "ptrarray"},
                             Phrase{"matrix vector product", "gemv"},
                             Phrase{"matrix vector", "gemv"},
                             Phrase{"matrix product", "gemm"},
                             Phrase{"matrix multiply", "gemm"},
                             Phrase{"matrix multiplication", "gemm"},
                             Phrase{"matrix multiplications", "gemm"},
                             Phrase{"triangular matrix multiply", "trmm"},
                             Phrase{"symmetric matrix multiply", "symm"},
                             Phrase{"symmetric rank", "symmetric rank"},
                             Phrase{"back to back gemm", "b2b gemm"},
                             Phrase{"back to back gemms", "b2b gemm"},
                             Phrase{"two gemms", "b2b gemm"},
                             Phrase{"two gemm", "b2b gemm"},
                             Phrase{"two convs", "b2b conv"},
                             Phrase{"two tensor op", "b2b"},
                             Phrase{"b2b gemm", "b2b gemm"},
                             Phrase{"dual gemm", "dualgemm gemm"},
                             Phrase{"mixture of experts", "moe"},
                             Phrase{"weight gradient", "wgrad backward"},
                             Phrase{"data gradient", "dgrad backward"},
                             Phrase{"backward data", "dgrad backward"},
                             Phrase{"transposed convolution", "deconv conv"},
                             Phrase{"transposed conv", "deconv conv"},
                             Phrase{"transposed conv2d", "deconv conv 2d"},
                             Phrase{"transposed convolutions", "deconv conv"},
                             Phrase{"group conv", "groupconv conv"},
                             Phrase{"grouped convolution", "groupconv conv"},
                             Phrase{"group convolution", "groupconv conv"},
                             Phrase{"grouped conv", "groupconv conv"},
                             Phrase{"conv2d group", "groupconv conv 2d"},
                             Phrase{"depth wise", "depthwise"},
                             Phrase{"implicit gemm", "implicitgemm conv"},
                             Phrase{"prefix sum", "cumsum scan"},
                             Phrase{"cumulative sum", "cumsum scan"},
                             Phrase{"cum sum", "cumsum scan"},
                             Phrase{"position embedding", "rope"},
                             Phrase{"rotary position embedding", "rope"},
                             Phrase{"rotary embedding", "rope"},
                             Phrase{"double precision", "f64"},
                             Phrase{"half precision", "f16"},
                             Phrase{"single precision", "f32"},
                             Phrase{"tensor core", "tensorop"},
                             Phrase{"tensor cores", "tensorop"},
                             Phrase{"tensor op", "tensorop"},
                             Phrase{"structured sparse", "sparse"},
                             Phrase{"sparse tensor op", "sparse tensorop"},
                             Phrase{"2 4 structured sparse", "sparse"},
                             Phrase{"2 4 sparse", "sparse"},
                             Phrase{"without tensor cores", "simt"},
                             Phrase{"three tf32", "3xtf32 tf32"},
                             Phrase{"cp async", "cpasync"},
                             Phrase{"tile scheduler", "tilescheduler"},
                             Phrase{"int 8", "s8"},
                             Phrase{"int 4", "s4"},
                             Phrase{"fp 16", "f16"},
                             Phrase{"fp 8", "fp8"},
                             Phrase{"float 8", "fp8"},
                             Phrase{"bf 16", "bf16"},
                             Phrase{"row major", "rowmajor"},
                             Phrase{"column major", "columnmajor"},
                             Phrase{"gated delta rule", "gateddeltarule deltarule gated"},
                             Phrase{"delta rule", "deltarule"},
                             Phrase{"linear attention", "linearattn attention"},
                             Phrase{"gated linear attention", "gla linearattn attention"},
                             Phrase{"conv 1d", "conv 1d"},
                             Phrase{"state space", "ssm"},
                             Phrase{"log softmax", "logsoftmax softmax"},
                             Phrase{"sliding window", "window"},
                             Phrase{"max pooling", "pooling window"},
                             Phrase{"average pooling", "pooling window"},
                             Phrase{"weighted sum", "weighted sum"},
                             Phrase{"outer dimension", "outer column"},
                             Phrase{"fast accum", "fastaccum"},
                             Phrase{"in place", "inplace"}};

/// One word, and what it is read as.
constexpr std::array synonyms{Phrase{"matmul", "gemm"},
                              Phrase{"mm", "gemm"},
                              Phrase{"bmm", "batched gemm"},
                              Phrase{"hgemm", "gemm f16"},
                              Phrase{"sgemm", "gemm f32 sgemm"},
                              Phrase{"dgemm", "gemm f64"},
                              Phrase{"cgemm", "gemm complex c32"},
                              Phrase{"zgemm", "gemm complex c64"},
                              Phrase{"igemm", "gemm s8"},
                              Phrase{"spgemm", "sparse gemm"},
                              Phrase{"hopper", "sm90"},
                              Phrase{"h100", "sm90"},
                              Phrase{"h200", "sm90"},
                              Phrase{"gh200", "sm90"},
                              Phrase{"sm90a", "sm90"},
                              Phrase{"ampere", "sm80"},
                              Phrase{"a100", "sm80"},
                              Phrase{"ada", "sm89"},
                              Phrase{"l40", "sm89"},
                              Phrase{"l40s", "sm89"},
                              Phrase{"l4", "sm89"},
                              Phrase{"volta", "sm70"},
                              Phrase{"v100", "sm70"},
                              Phrase{"turing", "sm75"},
                              Phrase{"t4", "sm75"},
                              Phrase{"pascal", "sm60"},
                              Phrase{"p100", "sm60"},
                              Phrase{"maxwell", "sm50"},
                              Phrase{"blackwell", "sm100 blackwell"},
                              Phrase{"b200", "sm100 blackwell"},
                              Phrase{"gb200", "sm100 blackwell"},
                              Phrase{"sm100", "sm100 blackwell"},
                              Phrase{"sm100a", "sm100 blackwell"},
                              Phrase{"sm103", "sm103 blackwell"},
                              Phrase{"sm103a", "sm103 blackwell"},
                              Phrase{"b300", "sm103 blackwell"},
                              Phrase{"geforce", "sm120 geforce"},
                              Phrase{"rtx5090", "sm120 geforce"},
                              Phrase{"sm120", "sm120 blackwell geforce"},
                              Phrase{"sm120a", "sm120 blackwell geforce"},
                              Phrase{"fp16", "f16"},
                              Phrase{"half", "f16"},
                              Phrase{"float16", "f16"},
                              Phrase{"bfloat16", "bf16"},
                              Phrase{"fp32", "f32"},
                              Phrase{"float32", "f32"},
                              Phrase{"float64", "f64"},
                              Phrase{"fp64", "f64"},
                              Phrase{"double", "f64"},
                              Phrase{"int8", "s8"},
                              Phrase{"uint8", "u8"},
                              Phrase{"int4", "s4"},
                              Phrase{"uint4", "u4"},
                              Phrase{"int32", "s32"},
                              Phrase{"float8", "fp8"},
                              Phrase{"f8", "fp8"},
                              Phrase{"e4m3", "e4m3 fp8"},
                              Phrase{"e5m2", "e5m2 fp8"},
                              Phrase{"fe4m3", "e4m3 fp8"},
                              Phrase{"fe5m2", "e5m2 fp8"},
                              Phrase{"e2m1", "e2m1 fp4"},
                              Phrase{"nvfp4", "fp4 nvfp4 blockscaled"},
                              Phrase{"mxfp4", "fp4 mxfp4 blockscaled"},
                              Phrase{"mxfp8", "fp8 mxfp8 blockscaled"},
                              Phrase{"mxfp6", "fp6 mxfp6 blockscaled"},
                              Phrase{"f4", "fp4"},
                              Phrase{"f6", "fp6"},
                              Phrase{"e3m2", "e3m2 fp6"},
                              Phrase{"e2m3", "e2m3 fp6"},
                              Phrase{"tfloat32", "tf32"},
                              Phrase{"3xtf32", "3xtf32 tf32"},
                              Phrase{"bf16x9", "bf16x9 emulated"},
                              Phrase{"convolution", "conv"},
                              Phrase{"convolutions", "conv"},
                              Phrase{"conv2d", "conv 2d"},
                              Phrase{"conv3d", "conv 3d"},
                              Phrase{"conv1d", "conv 1d"},
                              Phrase{"convs", "conv"},
                              Phrase{"conv2dfprop", "conv 2d fprop forward"},
                              Phrase{"fprop", "conv fprop forward"},
                              Phrase{"dgrad", "conv dgrad backward"},
                              Phrase{"wgrad", "conv wgrad backward"},
                              Phrase{"deconv2d", "deconv conv 2d"},
                              Phrase{"deconv3d", "deconv conv 3d"},
                              Phrase{"deconvolution", "deconv conv"},
                              Phrase{"deconv", "deconv conv"},
                              Phrase{"fmha", "attention multihead fmha"},
                              Phrase{"mha", "attention multihead"},
                              Phrase{"sdpa", "attention"},
                              Phrase{"attn", "attention"},
                              Phrase{"mla", "mla attention"},
                              Phrase{"nsa", "nsa attention"},
                              Phrase{"bwd", "backward"},
                              Phrase{"grad", "backward"},
                              Phrase{"gradient", "backward"},
                              Phrase{"gradients", "backward"},
                              Phrase{"fwd", "forward"},
                              Phrase{"gemms", "gemm"},
                              Phrase{"rotary", "rope"},
                              Phrase{"mrope", "rope mrope"},
                              Phrase{"swish", "silu"},
                              Phrase{"swiglu", "swiglu silu activation"},
                              Phrase{"geglu", "geglu gelu activation"},
                              Phrase{"layernorm", "layernorm norm"},
                              Phrase{"rmsnorm", "rmsnorm norm"},
                              Phrase{"groupnorm", "groupnorm norm"},
                              Phrase{"batchnorm", "batchnorm norm"},
                              Phrase{"l2norm", "l2norm norm"},
                              Phrase{"normalize", "norm"},
                              Phrase{"normalise", "norm"},
                              Phrase{"normalization", "norm"},
                              Phrase{"kldiv", "kldiv loss"},
                              Phrase{"jsd", "jsd loss"},
                              Phrase{"crossentropy", "crossentropy loss"},
                              Phrase{"elementwise", "pointwise"},
                              Phrase{"npu", "ascend"},
                              Phrase{"decode", "decoding"},
                              Phrase{"warpspecialised", "warpspecialized"},
                              Phrase{"inclusive", "inclusive scan"},
                              Phrase{"cumsum", "cumsum scan"},
                              Phrase{"syrk", "rankk"},
                              Phrase{"herk", "rankk"},
                              Phrase{"her2k", "rank2k"},
                              Phrase{"gauss", "gaussian"},
                              Phrase{"multistage", "multistage cpasync"},
                              Phrase{"gmma", "gmma wgmma"},
                              Phrase{"wgmma", "gmma wgmma"},
                              Phrase{"umma", "umma tcgen05"},
                              Phrase{"tcgen05", "umma tcgen05"},
                              Phrase{"sptensorop", "sparse tensorop"},
                              Phrase{"bstensorop", "blockscaled tensorop"},
                              Phrase{"ptrarray", "ptrarray batched"},
                              Phrase{"vectorised", "vector"},
                              Phrase{"vectorized", "vector"},
                              Phrase{"moe", "moe grouped"},
                              Phrase{"pool", "pooling window"},
                              Phrase{"softplus", "softplus activation"},
                              Phrase{"embedding", "embedding"},
                              Phrase{"embeddings", "embedding"}};

const std::unordered_set<std::string_view>& stop_words() {
  static const std::unordered_set<std::string_view> stop{
      "the",  "a",     "an",    "of",   "for",  "and",  "or",   "to",   "in",    "on",   "with",
      "by",   "that",  "do",    "not",  "is",   "are",  "be",   "it",   "its",   "this", "from",
      "as",   "at",    "which", "one",  "into", "than", "if",   "then", "else",  "each", "where",
      "when", "using", "use",   "used", "over", "also", "same", "fit",  "kernel"};
  return stop;
}

/// "scales", "scaled", "scaling" and "scale" → "scal". Crude, and the same for texts and queries.
std::string without_ending(std::string word) {
  const auto ends = [&](std::string_view end) { return word.ends_with(end); };
  const bool letters = std::ranges::all_of(word, is_lower);
  if (!letters || word.size() < 5) return word;
  if (ends("ies")) {
    word.replace(word.size() - 3, 3, "y");
  } else if (ends("ing") && word.size() > 6) {
    word.resize(word.size() - 3);
  } else if (ends("ed") && word.size() > 5) {
    word.resize(word.size() - 2);
  } else if (ends("s") && !ends("ss") && !ends("us") && !ends("is")) {
    word.resize(word.size() - 1);
  }
  if (word.size() > 4 && word.ends_with("e")) word.resize(word.size() - 1);
  return word;
}

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    out.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return out;
}

struct Tables {
  /// First word → phrases that begin so, longest first.
  std::unordered_map<std::string, std::vector<std::pair<std::vector<std::string>, std::string_view>>> phrases;
  std::unordered_map<std::string_view, std::string_view> synonyms;
  /// Spellings that synonyms and phrases give: their endings stay.
  std::unordered_set<std::string_view> canonical;
};

const Tables& vocabulary() {
  static const Tables made = [] {
    Tables out;
    const auto keep = [&](std::string_view to) {
      for (std::size_t at = 0; at < to.size();) {
        const std::size_t end = std::min(to.find(' ', at), to.size());
        out.canonical.insert(to.substr(at, end - at));
        at = end + 1;
      }
    };
    for (const Phrase& phrase : phrases) {
      auto parts = parts_of(phrase.from);
      const std::string first = parts.front();
      out.phrases[first].emplace_back(std::move(parts), phrase.to);
      keep(phrase.to);
    }
    for (auto& [first, all] : out.phrases) {
      std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    }
    for (const Phrase& one : synonyms) {
      out.synonyms.emplace(one.from, one.to);
      keep(one.to);
    }
    return out;
  }();
  return made;
}

void append(std::vector<std::string>& out, std::string_view several) {
  for (std::string& part : parts_of(several)) out.push_back(std::move(part));
}

/// Two or more numbers with x between them: "128x256x64".
std::vector<int> extents(std::string_view word) {
  std::vector<int> out;
  int number = 0, digits = 0;
  for (const char c : word) {
    if (is_digit(c) && digits < 6) {
      number = number * 10 + (c - '0');
      ++digits;
    } else if (c == 'x' && digits > 0) {
      out.push_back(number);
      number = digits = 0;
    } else {
      return {};
    }
  }
  if (digits == 0) return {};
  out.push_back(number);
  return out;
}

struct Meaning {
  std::string_view word, name, value;
};
constexpr std::array meanings{Meaning{"gemm", "operation", "gemm"},
                              Meaning{"gemv", "operation", "gemv"},
                              Meaning{"conv", "operation", "conv"},
                              Meaning{"attention", "operation", "attention"},
                              Meaning{"softmax", "operation", "softmax"},
                              Meaning{"norm", "operation", "norm"},
                              Meaning{"loss", "operation", "loss"},
                              Meaning{"rope", "operation", "rope"},
                              Meaning{"scan", "operation", "scan"},
                              Meaning{"trmm", "operation", "trmm"},
                              Meaning{"symm", "operation", "symm"},
                              Meaning{"rankk", "operation", "rank_k"},
                              Meaning{"rank2k", "operation", "rank_2k"},
                              Meaning{"embedding", "operation", "embedding"},
                              Meaning{"pooling", "operation", "pooling"},
                              Meaning{"pointwise", "operation", "pointwise"},
                              Meaning{"activation", "operation", "activation"},
                              Meaning{"reduction", "operation", "reduction"},
                              Meaning{"reduc", "operation", "reduction"},
                              Meaning{"sparsemax", "operation", "sparsemax"},
                              Meaning{"grouped", "variant", "grouped"},
                              Meaning{"batched", "variant", "batched"},
                              Meaning{"ptrarray", "variant", "ptr_array"},
                              Meaning{"sparse", "variant", "sparse"},
                              Meaning{"splitk", "variant", "split_k"},
                              Meaning{"streamk", "variant", "stream_k"},
                              Meaning{"blockscaled", "variant", "block_scaled"},
                              Meaning{"blockwise", "variant", "blockwise"},
                              Meaning{"groupwise", "variant", "blockwise"},
                              Meaning{"mixedinput", "variant", "mixed_input"},
                              Meaning{"complex", "variant", "complex"},
                              Meaning{"planar", "variant", "planar_complex"},
                              Meaning{"quaternion", "variant", "quaternion"},
                              Meaning{"depthwise", "variant", "depthwise"},
                              Meaning{"groupconv", "variant", "group_conv"},
                              Meaning{"deconv", "variant", "transposed"},
                              Meaning{"dgrad", "variant", "dgrad"},
                              Meaning{"wgrad", "variant", "wgrad"},
                              Meaning{"fprop", "variant", "fprop"},
                              Meaning{"3d", "variant", "3d"},
                              Meaning{"2d", "variant", "2d"},
                              Meaning{"1d", "variant", "1d"},
                              Meaning{"b2b", "variant", "back_to_back"},
                              Meaning{"dualgemm", "variant", "dual"},
                              Meaning{"emulated", "variant", "emulated"},
                              Meaning{"3xtf32", "variant", "3xtf32"},
                              Meaning{"distribut", "variant", "distributed"},
                              Meaning{"gather", "variant", "gather"},
                              Meaning{"scatter", "variant", "scatter"},
                              Meaning{"mla", "variant", "mla"},
                              Meaning{"decoding", "variant", "decode"},
                              Meaning{"rmsnorm", "variant", "rms"},
                              Meaning{"layernorm", "variant", "layer"},
                              Meaning{"groupnorm", "variant", "group"},
                              Meaning{"batchnorm", "variant", "batch"},
                              Meaning{"l2norm", "variant", "l2"},
                              Meaning{"causal", "variant", "causal"},
                              Meaning{"permut", "variant", "permute"},
                              Meaning{"forward", "direction", "forward"},
                              Meaning{"backward", "direction", "backward"},
                              Meaning{"f64", "dtype", "f64"},
                              Meaning{"f32", "dtype", "f32"},
                              Meaning{"tf32", "dtype", "tf32"},
                              Meaning{"f16", "dtype", "f16"},
                              Meaning{"bf16", "dtype", "bf16"},
                              Meaning{"fp8", "dtype", "fp8"},
                              Meaning{"e4m3", "dtype", "e4m3"},
                              Meaning{"e5m2", "dtype", "e5m2"},
                              Meaning{"fp6", "dtype", "fp6"},
                              Meaning{"fp4", "dtype", "fp4"},
                              Meaning{"e2m1", "dtype", "e2m1"},
                              Meaning{"s8", "dtype", "s8"},
                              Meaning{"u8", "dtype", "u8"},
                              Meaning{"s4", "dtype", "s4"},
                              Meaning{"u4", "dtype", "u4"},
                              Meaning{"c32", "dtype", "c32"},
                              Meaning{"c64", "dtype", "c64"},
                              Meaning{"tensorop", "opcode", "tensor_op"},
                              Meaning{"simt", "opcode", "simt"},
                              Meaning{"wmma", "opcode", "wmma"},
                              Meaning{"pingpong", "schedule", "pingpong"},
                              Meaning{"cooperativ", "schedule", "cooperative"},
                              Meaning{"warpspecialized", "schedule", "warp_specialized"},
                              Meaning{"tma", "schedule", "tma"},
                              Meaning{"cpasync", "schedule", "cp_async"},
                              Meaning{"multistage", "schedule", "multistage"},
                              Meaning{"persistent", "schedule", "persistent"},
                              Meaning{"pipelin", "schedule", "pipelined"},
                              Meaning{"fastaccum", "schedule", "fast_accumulate"},
                              Meaning{"bias", "epilogue", "bias"},
                              Meaning{"relu", "epilogue", "relu"},
                              Meaning{"gelu", "epilogue", "gelu"},
                              Meaning{"silu", "epilogue", "silu"},
                              Meaning{"sigmoid", "epilogue", "sigmoid"},
                              Meaning{"tanh", "epilogue", "tanh"},
                              Meaning{"absmax", "epilogue", "absmax"},
                              Meaning{"broadcast", "epilogue", "broadcast"},
                              Meaning{"topk", "epilogue", "topk"},
                              Meaning{"residual", "epilogue", "residual"},
                              Meaning{"rowmajor", "layout", "row_major"},
                              Meaning{"columnmajor", "layout", "column_major"},
                              Meaning{"nhwc", "layout", "nhwc"},
                              Meaning{"nchw", "layout", "nchw"},
                              Meaning{"ndhwc", "layout", "ndhwc"},
                              Meaning{"nn", "layout", "nn"},
                              Meaning{"nt", "layout", "nt"},
                              Meaning{"tn", "layout", "tn"},
                              Meaning{"tt", "layout", "tt"},
                              Meaning{"skinny", "shape", "small"},
                              Meaning{"small", "shape", "small"},
                              Meaning{"larg", "shape", "large"},
                              Meaning{"ascend", "device", "ascend"},
                              Meaning{"triton", "language", "triton"},
                              Meaning{"planish", "language", "planish"},
                              Meaning{"cutlass", "language", "cutlass"},
                              Meaning{"gluon", "language", "gluon"},
                              Meaning{"atomic", "trait", "atomic"},
                              Meaning{"dot", "trait", "dot"}};

}  // namespace

std::vector<std::string> words(std::string_view text, std::size_t limit) {
  std::vector<std::string> raw = split(text, limit);
  const Tables& known = vocabulary();
  std::vector<std::string> out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size();) {
    // "sm_90a" is one word.
    if (raw[i] == "sm" && i + 1 < raw.size() && is_digit(raw[i + 1][0]) && raw[i + 1].size() <= 4) {
      raw[i + 1].insert(0, "sm");
      ++i;
      continue;
    }
    if (const auto found = known.phrases.find(raw[i]); found != known.phrases.end()) {
      const auto fits = std::ranges::find_if(found->second, [&](const auto& phrase) {
        const auto& parts = phrase.first;
        return i + parts.size() <= raw.size() &&
               std::equal(parts.begin(), parts.end(), raw.begin() + static_cast<std::ptrdiff_t>(i));
      });
      if (fits != found->second.end()) {
        append(out, fits->second);
        i += fits->first.size();
        continue;
      }
    }
    if (const auto found = known.synonyms.find(raw[i]); found != known.synonyms.end()) {
      append(out, found->second);
    } else if (known.canonical.contains(raw[i])) {
      out.push_back(raw[i]);
    } else if (raw[i].size() > 1 && !stop_words().contains(raw[i])) {
      out.push_back(without_ending(raw[i]));
    }
    ++i;
  }
  if (out.size() > limit) out.resize(limit);
  return out;
}

Facts recognise(const std::vector<std::string>& words) {
  static const auto known = [] {
    std::unordered_map<std::string_view, const Meaning*> out;
    for (const Meaning& one : meanings) out.emplace(one.word, &one);
    return out;
  }();
  Facts facts;
  for (const std::string& word : words) {
    if (const auto found = known.find(word); found != known.end())
      add_fact(facts, found->second->name, found->second->value);
    if (word.starts_with("sm") && word.size() >= 4 && std::ranges::all_of(word.substr(2), is_digit))
      add_fact(facts, "arch", word.substr(2));
    if (const auto sizes = extents(word); sizes.size() == 3 && std::ranges::max(sizes) <= 8)
      add_fact(facts, "cluster", word);
    else if (sizes.size() >= 2 && sizes.size() <= 3 && std::ranges::max(sizes) > 8)
      add_fact(facts, "tile", word);
  }
  return facts;
}

}  // namespace planish::patterns
