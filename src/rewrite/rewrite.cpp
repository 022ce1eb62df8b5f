#include "rewrite/rewrite.h"

#include "rewrite/rules.h"

namespace planish::rewrite {

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{{"softmax_of_one", Numeric::exact, softmax_of_one},
                                     {"diagonal_product", Numeric::exact, diagonal_product},
                                     {"banded_product", Numeric::reassociation, banded_product},
                                     {"latent_attention", Numeric::reassociation, latent_attention},
                                     {"wide_attention", Numeric::reassociation, wide_attention},
                                     {"sum_through_product", Numeric::reassociation, sum_through_product},
                                     {"sum_through_convolution", Numeric::reassociation, sum_through_convolution},
                                     {"product_through_product", Numeric::reassociation, product_through_product},
                                     {"pool_before_convolution", Numeric::reassociation, pool_before_convolution},
                                     {"extremum_before_monotone", Numeric::reassociation, extremum_before_monotone},
                                     {"mean_behind_norm", Numeric::reassociation, mean_behind_norm},
                                     {"gated_product", Numeric::exact, gated_product},
                                     {"norm_by_channels", Numeric::reassociation, norm_by_channels},
                                     {"pool_of_pool", Numeric::reassociation, pool_of_pool},
                                     {"pool_through_convolution", Numeric::reassociation, pool_through_convolution},
                                     {"pool_through_transposed", Numeric::reassociation, pool_through_transposed},
                                     {"affine_into_weights", Numeric::reassociation, affine_into_weights, true}};
  return all;
}

Rewritten rewrite(const ir::Graph& graph, const Options& options) {
  Rewritten out;
  out.local = graph.values.size();
  Editor editor(graph, options);
  // Each rule replaces a node by others that it does not fire at, of which there are fewer each time.
  for (bool again = true; again;) {
    again = false;
    for (int index = 0; !again && index < static_cast<int>(editor.graph().nodes.size()); ++index) {
      for (const Rule& rule : rules()) {
        const int value = editor.node(index).outs.empty() ? -1 : editor.node(index).outs[0].value_or(-1);
        if ((rule.library && !options.library_products) || !rule.apply(editor, index)) continue;
        out.applied.push_back({std::string(rule.name), rule.numeric, value});
        again = true;
        break;
      }
    }
  }
  out.graph = editor.graph();
  return out;
}

}  // namespace planish::rewrite
