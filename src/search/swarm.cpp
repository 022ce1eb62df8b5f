#include "search/swarm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace planish::search {
namespace {

/// Times this much over the best (e^1.5: 4.5 times) are all alike: slow. Else the surrogate would spend its cuts on
/// them.
constexpr double slow_beyond = 1.5;
/// Prediction of a predictor, as a feature of the surrogate: one step of it.
constexpr double predicted_step = 0.04;
/// How much slower a parent may be: of two elites, one e^−this as fast is taken e times less often.
constexpr double parent_tolerance = 0.12;
constexpr std::size_t parents_ranked = 12;
constexpr double curiosities[] = {0.2, 0.6, 1.0, 1.6};
constexpr int legality_tries = 48;
constexpr int rounds_before_exhausted = 60;
constexpr std::size_t founders_among = 8;

std::uint64_t mixed(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

}  // namespace

Swarm::Swarm(const StrategyContext& context, SwarmOptions options)
    : region_(context.region),
      options_(options),
      predictor_(context.predictor),
      board_(context.board),
      space_(context.region.domain),
      rng_(context.seed),
      stock_(space_),
      who_(std::vector<double>(static_cast<std::size_t>(focuses * options.islands), 1.0), 0.3),
      kinds_(std::vector<double>(gene_slots, 1.0), 0.2) {
  features_ = space_.genes();
  if (predictor_ != nullptr && features_ < Code::most) ++features_;
  for (int i = 0; i < space_.genes(); ++i)
    gene_kind_.push_back(static_cast<std::uint8_t>(slot_of_gene(space_.gene(i).name)));
  for (int i = 0; i < options_.islands; ++i) {
    Island island;
    island.curiosity = curiosities[static_cast<std::size_t>(i) % std::size(curiosities)];
    island.founding = i == 0 ? 0 : options_.founders;
    islands_.push_back(std::move(island));
    for (int f = 0; f < focuses; ++f) {
      const Focus& focus = all_focuses()[static_cast<std::size_t>(f)];
      agents_.push_back({f, i, std::mt19937_64(mixed(context.seed, agents_.size())),
                         Bandit({focus.operator_weight.begin(), focus.operator_weight.end()}), 0, true});
    }
  }
  // Who stands up is spread over islands and focuses; the first agent stays.
  const auto all = static_cast<int>(agents_.size());
  const int gone = all - std::clamp(context.agents, 1, all);
  for (int i = 0; i < all; ++i) {
    const int island = i / focuses, turned = island * focuses + (i % focuses + 2 * island) % focuses;
    agents_[static_cast<std::size_t>(turned)].there = (i + 1) * gone / all == i * gone / all;
  }
  if (context.draws > 0) options_.stock_first = context.draws;
  if (!context.surrogate) options_.learn_after = std::numeric_limits<int>::max();
  for (const auto& genome : region_.domain->seeds()) {
    if (const auto code = space_.encode(genome)) all_seeds_.push_back(*code);
  }
  seeds_.assign(all_seeds_.begin(), all_seeds_.end());
}

bool Swarm::fresh(const Code& code) const {
  return !proposed_.contains(space_.key(code));
}

Code Swarm::row_of(const Code& code) const {
  Code row = code;
  if (features_ == space_.genes()) return row;
  const auto slot = static_cast<std::size_t>(space_.genes());
  row.at[slot] = 255;  // the predictor cannot say
  if (const auto guess = predictor_->predicted_log_ms(region_, space_.view(code))) {
    const double steps = 100 + (*guess - anchor_.value_or(*guess)) / predicted_step;
    row.at[slot] = static_cast<std::uint8_t>(std::clamp(steps, 0.0, 254.0));
  }
  return row;
}

void Swarm::learn() {
  const std::size_t told = records_.size();
  if (told < static_cast<std::size_t>(options_.learn_after) || !any_) return;
  if (surrogate_.fitted() && told < learned_at_ + std::max<std::size_t>(2, learned_at_ / 12)) return;
  learned_at_ = told;
  if (features_ > space_.genes() && !anchor_)
    anchor_ = predictor_->predicted_log_ms(region_, space_.view(records_[best_].code));
  // The newest, and of the old ones the best.
  std::vector<std::size_t> rows(told);
  for (std::size_t i = 0; i < told; ++i) rows[i] = i;
  const auto most = static_cast<std::size_t>(options_.most_rows);
  if (told > most) {
    const auto newest = rows.end() - static_cast<std::ptrdiff_t>(most / 2);
    const auto keep = rows.begin() + static_cast<std::ptrdiff_t>(most / 2);
    std::nth_element(rows.begin(), keep, newest, [&](std::size_t a, std::size_t b) {
      return std::pair(!records_[a].ok, records_[a].log_ms) < std::pair(!records_[b].ok, records_[b].log_ms);
    });
    rows.erase(keep, newest);
  }
  const double ceiling = records_[best_].log_ms + slow_beyond;
  std::vector<Code> codes;
  std::vector<double> values;
  for (const std::size_t i : rows) {
    codes.push_back(row_of(records_[i].code));
    values.push_back(records_[i].ok ? std::min(records_[i].log_ms, ceiling) : ceiling);
  }
  surrogate_.fit(codes, values, features_, rng_);
}

Swarm::Parents Swarm::parents_of(const Agent& agent) const {
  const Island& island = islands_[static_cast<std::size_t>(agent.island)];
  Parents out;
  if (island.ranking.empty()) return out;
  const auto top = static_cast<std::ptrdiff_t>(std::min(parents_ranked, island.ranking.size()));
  out.records.assign(island.ranking.begin(), island.ranking.begin() + top);
  const double best = records_[island.ranking.front()].log_ms;
  for (const std::size_t i : out.records)
    out.weights.push_back(std::exp((best - records_[i].log_ms) / parent_tolerance));
  return out;
}

std::vector<double> Swarm::gene_weights(const Agent& agent) const {
  const Focus& focus = all_focuses()[static_cast<std::size_t>(agent.focus)];
  const std::vector<double> learned = kinds_.shares();
  std::vector<double> out;
  for (const std::uint8_t kind : gene_kind_) out.push_back(focus.kind_weight[kind] * learned[kind]);
  return out;
}

/// What one agent thinks of at one time, by one operator. Whatever it draws, it draws with its own generator.
class Swarm::Thinking {
 public:
  Thinking(Swarm& swarm, Agent& agent, std::vector<Thought>& pool)
      : swarm_(swarm),
        space_(swarm.space_),
        agent_(agent),
        pool_(pool),
        parents_(swarm.parents_of(agent)),
        weights_(swarm.gene_weights(agent)) {}

  void think(Operator by) {
    switch (by) {
      case Operator::restart:
        return restart();
      case Operator::step:
        return step();
      case Operator::seed:
        return seed();
      default:
        return vary(by);
    }
  }

 private:
  std::size_t pick(std::size_t count) { return search::pick(agent_.rng, count); }

  const Record* parent() {
    if (parents_.records.empty()) return nullptr;
    return &swarm_.records_[parents_.records[static_cast<std::size_t>(pick_weighted(agent_.rng, parents_.weights))]];
  }

  std::uint8_t any_choice(int gene) {
    return static_cast<std::uint8_t>(pick(static_cast<std::size_t>(space_.choices(gene))));
  }

  void redraw(Code& code) {
    for (std::size_t changes = 1 + pick(3); changes-- > 0;) {
      const int gene = pick_weighted(agent_.rng, weights_);
      code.at[static_cast<std::size_t>(gene)] = any_choice(gene);
    }
  }

  /// False where a gene has no further choice.
  bool shift(Code& code, int gene, int direction) const {
    const int to = code.at[static_cast<std::size_t>(gene)] + direction;
    if (to < 0 || to >= space_.choices(gene)) return false;
    code.at[static_cast<std::size_t>(gene)] = static_cast<std::uint8_t>(to);
    return true;
  }

  void push(const Code& code, const Record* from) {
    ++swarm_.funnel_.drawn;
    if (!swarm_.fresh(code)) return;
    if (std::ranges::none_of(pool_, [&](const Thought& t) { return t.code == code; }))
      pool_.push_back({code, from, false});
  }

  /// Uniform from the stock: a window of it, because ranking all would take milliseconds.
  void restart() {
    const auto& codes = swarm_.stock_.codes();
    if (codes.empty()) return;
    const std::size_t begin = pick(codes.size());
    const std::size_t most = swarm_.options_.stock_ranked;
    const std::size_t ranked = swarm_.predictor_ != nullptr ? most / 4 : most;
    for (std::size_t i = 0; i < std::min(codes.size(), ranked); ++i) {
      const Code& code = codes[(begin + i) % codes.size()];
      if (swarm_.fresh(code)) pool_.push_back({code, nullptr, true});
    }
  }

  /// Every neighbour of one parent: the surrogate, not chance, says which way is down.
  void step() {
    const Record* from = parent();
    if (from == nullptr) return;
    for (int gene = 0; gene < space_.genes(); ++gene) {
      for (const int direction : {-1, 1}) {
        Code code = from->code;
        if (shift(code, gene, direction)) push(code, from);
      }
    }
  }

  /// The coder's guesses, changed.
  void seed() {
    const auto& seeds = swarm_.all_seeds_;
    if (seeds.empty()) return;
    for (int i = 0; i < swarm_.options_.pool; ++i) {
      Code code = seeds[pick(seeds.size())];
      redraw(code);
      push(code, nullptr);
    }
  }

  /// What becomes of parents.
  void vary(Operator by) {
    const auto elites = swarm_.islands_[static_cast<std::size_t>(agent_.island)].archive.elites();
    for (int i = 0; i < swarm_.options_.pool; ++i) {
      const Record* from = parent();
      if (from == nullptr || (by == Operator::transplant && !has_transplants())) return;
      if (by == Operator::follow && from->moves.empty()) continue;
      Code code = from->code;
      if (by == Operator::mutate) redraw(code);
      if (by == Operator::follow) follow(from->moves, code);
      if (by == Operator::cross) cross(elites, code);
      if (by == Operator::transplant) transplant(code);
      push(code, from);
    }
  }

  /// Does what the judge advised.
  void follow(const std::vector<Move>& moves, Code& code) {
    std::vector<double> gains;
    for (const Move& move : moves) gains.push_back(std::max(move.expected_gain, 0.01));
    const int changes = 1 + static_cast<int>(pick(2));
    for (int c = 0; c < changes; ++c) {
      const Move& move = moves[static_cast<std::size_t>(pick_weighted(agent_.rng, gains))];
      for (int gene = 0; gene < space_.genes(); ++gene) {
        if (space_.gene(gene).name != move.gene) continue;
        if (move.direction == 0) {
          code.at[static_cast<std::size_t>(gene)] = any_choice(gene);
        } else {
          shift(code, gene, move.direction * (1 + static_cast<int>(pick(4) == 0)));
        }
      }
    }
  }

  /// Takes half of the genes from another parent, or from an elite.
  void cross(const std::vector<Elite>& elites, Code& code) {
    const Record* other = parent();
    if (!elites.empty() && pick(2) == 0) other = &swarm_.records_[elites[pick(elites.size())].id];
    for (std::size_t gene = 0; gene < static_cast<std::size_t>(space_.genes()); ++gene) {
      if (pick(2) == 0) code.at[gene] = other->code.at[gene];
    }
  }

  bool has_transplants() const { return swarm_.board_ != nullptr && !swarm_.board_->entries().empty(); }

  /// Takes genes from what is good in another region, or their nearest values.
  void transplant(Code& code) {
    const auto& entries = swarm_.board_->entries();
    const Board::Entry& entry = entries[pick(entries.size())];
    if (entry.region == swarm_.region_.id) return;
    const bool all = pick(2) == 0;
    for (int gene = 0; gene < space_.genes(); ++gene) {
      const auto theirs = entry.genome.find(space_.gene(gene).name);
      if (theirs == entry.genome.end() || (!all && pick(2) == 0)) continue;
      const auto& choices = space_.gene(gene).choices;
      const auto nearest = std::ranges::min_element(
          choices, {}, [&](std::int64_t v) { return std::abs(static_cast<double>(v - theirs->second)); });
      code.at[static_cast<std::size_t>(gene)] =
          static_cast<std::uint8_t>(std::min<std::ptrdiff_t>(nearest - choices.begin(), space_.choices(gene) - 1));
    }
  }

  Swarm& swarm_;
  const Space& space_;
  Agent& agent_;
  std::vector<Thought>& pool_;
  const Parents parents_;
  const std::vector<double> weights_;  ///< how likely each gene is to change
};

std::optional<Swarm::Thought> Swarm::choose(const Agent& agent, std::vector<Thought>& pool) {
  const double curiosity = islands_[static_cast<std::size_t>(agent.island)].curiosity;
  std::vector<std::pair<double, std::size_t>> order;
  order.reserve(pool.size());
  if (surrogate_.fitted()) {
    asked_.clear();
    for (const Thought& thought : pool) asked_.push_back(row_of(thought.code));
    guesses_.resize(pool.size());
    surrogate_.guess(asked_, guesses_);
  }
  for (std::size_t i = 0; i < pool.size(); ++i) {
    double score = static_cast<double>(i);  // as thought of
    if (surrogate_.fitted()) {
      score = guesses_[i].mean - curiosity * guesses_[i].spread;
      ++funnel_.predicted;
    } else if (predictor_ != nullptr) {
      if (const auto guess = predictor_->predicted_log_ms(region_, space_.view(pool[i].code))) {
        score = *guess;
        ++funnel_.predicted;
      }
    }
    order.emplace_back(score, i);
  }
  std::ranges::sort(order);
  // Asked in this order, so that the domain's microseconds go to those that would be proposed.
  int tries = 0;
  double last = 0;
  for (const auto& [score, i] : order) {
    if (tries == 0 || score - last > 0.02) {
      ++funnel_.clustered;
      last = score;
    }
    if (++tries > legality_tries) break;
    if (!pool[i].legal && !space_.legal(pool[i].code)) continue;
    ++funnel_.legal;
    return pool[i];
  }
  return std::nullopt;
}

Code Swarm::next_seed() {
  const auto suspicion = [this](const Code& code) {
    std::ptrdiff_t found = 0;
    for (std::size_t gene = 0; gene < static_cast<std::size_t>(space_.genes()); ++gene) {
      const auto has = [&](const Record& record) { return record.code.at[gene] == code.at[gene]; };
      if (std::ranges::any_of(records_, [&](const Record& record) { return record.ok && has(record); })) continue;
      found += std::ranges::count_if(records_, [&](const Record& record) { return record.wrong && has(record); });
    }
    return found;
  };
  const auto least = std::ranges::min_element(seeds_, {}, suspicion);
  const Code code = *least;
  seeds_.erase(least);
  return code;
}

std::optional<codegen::Genome> Swarm::propose() {
  while (!seeds_.empty()) {
    const Code code = next_seed();
    ++funnel_.drawn;
    if (!proposed_.insert(space_.key(code))) continue;
    ++funnel_.legal;
    pending_[space_.key(code)] = Pending{};
    origin_ = Origin{};
    origin_.by = name(Operator::seed);
    return space_.decode(code);
  }
  if (space_.genes() == 0) return std::nullopt;  // the seed was all there is
  if (stock_.drawn() == 0) {
    stock_.draw(options_.stock_first, rng_);
  } else {
    stock_.draw(options_.stock_more, rng_);
  }
  learn();
  for (int round = 0; round < rounds_before_exhausted; ++round) {
    std::vector<double> shares = who_.shares();
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      if (!agents_[i].there || !open(agents_[i].island)) shares[i] = 0;
    }
    Agent& agent = agents_[static_cast<std::size_t>(pick_weighted(rng_, shares))];
    Operator by = Operator::restart;
    const auto chosen = next(agent, round, by);
    if (!chosen) continue;
    ++agent.proposed;
    proposed_.insert(space_.key(chosen->code));
    if (stock_.codes().size() > 64 && agent.proposed % 16 == 0) stock_.remove([&](const Code& c) { return !fresh(c); });
    Pending pending;
    pending.agent = static_cast<int>(&agent - agents_.data());
    pending.by = by;
    origin_ = Origin{};
    origin_.by = name(by);
    origin_.agent = pending.agent;
    origin_.focus = all_focuses()[static_cast<std::size_t>(agent.focus)].name;
    origin_.island = agent.island;
    if (chosen->parent != nullptr) {
      origin_.parent = space_.decode(chosen->parent->code);
      pending.parent_log_ms = chosen->parent->log_ms;
      for (std::size_t gene = 0; gene < static_cast<std::size_t>(space_.genes()); ++gene) {
        if (chosen->code.at[gene] != chosen->parent->code.at[gene]) pending.genes |= 1U << gene_kind_[gene];
      }
    }
    pending_[space_.key(chosen->code)] = pending;
    return space_.decode(chosen->code);
  }
  return std::nullopt;
}

bool Swarm::open(int island) const {
  const int needed = options_.open_first + (island - 1) * options_.open_every;
  return island < 1 || (island == 1 && rested_) || records_.size() >= static_cast<std::size_t>(needed);
}

std::optional<Swarm::Thought> Swarm::next(Agent& agent, int round, Operator& by) {
  Island& island = islands_[static_cast<std::size_t>(agent.island)];
  std::vector<Thought> pool;
  // Towards the end of a space what is left is nowhere near the elites.
  const bool last = round >= rounds_before_exhausted / 2;
  if (last) stock_.draw(2048, rng_);
  const bool founding = island.founding > 0 && !last;
  by = last || founding ? Operator::restart : static_cast<Operator>(agent.operators.choose(agent.rng));
  Thinking(*this, agent, pool).think(by);
  if (founding && !pool.empty()) {
    // Founders come from anywhere: a handful is looked at, and the likeliest taken.
    --island.founding;
    std::vector<Thought> handful;
    for (std::size_t i = 0; i < founders_among; ++i) handful.push_back(pool[pick(agent.rng, pool.size())]);
    pool = std::move(handful);
  }
  return choose(agent, pool);
}

bool Swarm::enter(Island& island, std::size_t record) {
  const Record& one = records_[record];
  if (!one.ok) return false;
  const auto at =
      std::ranges::upper_bound(island.ranking, one.log_ms, {}, [&](std::size_t i) { return records_[i].log_ms; });
  const bool best = at == island.ranking.begin();
  island.ranking.insert(at, record);
  if (island.ranking.size() > 64) island.ranking.pop_back();
  island.archive.add({one.cell, std::exp(one.log_ms), one.lo_ms, one.hi_ms, record});
  return best;
}

void Swarm::reward(const Pending& pending, const Record& record, double seconds) {
  if (pending.agent < 0) return;
  double gain = 0;
  if (record.ok && any_) {
    // A new best counts in full; being better than where one came from counts for a little, more so near the best.
    const double best = records_[best_].log_ms;
    gain = std::max(best - record.log_ms, 0.0);
    if (pending.parent_log_ms) {
      const double near = std::exp(-(record.log_ms - best) / parent_tolerance);
      gain += 0.1 * std::max(*pending.parent_log_ms - record.log_ms, 0.0) * std::min(near, 1.0);
    }
    gain = std::min(gain, 0.5);
  }
  mean_seconds_ = mean_seconds_ == 0 ? seconds : 0.95 * mean_seconds_ + 0.05 * seconds;
  const double cost = mean_seconds_ > 0 ? std::clamp(seconds / mean_seconds_, 0.2, 5.0) : 1.0;
  const double value = gain / cost;
  Agent& agent = agents_[static_cast<std::size_t>(pending.agent)];
  agent.operators.reward(static_cast<int>(pending.by), value);
  who_.reward(pending.agent, value);
  for (int kind = 0; kind < gene_slots; ++kind) {
    if ((pending.genes >> static_cast<unsigned>(kind) & 1U) != 0) kinds_.reward(kind, value);
  }
}

void Swarm::tell(const codegen::Genome& genome, const Told& told) {
  const auto code = space_.encode(genome);
  if (!code) return;
  const std::uint64_t key = space_.key(*code);
  Pending pending;
  if (const auto found = pending_.find(key); found != pending_.end()) {
    pending = found->second;
    pending_.erase(found);
  }
  Record record;
  record.code = *code;
  record.ok = told.ok && told.median_ms > 0;
  record.wrong = !told.ok && !told.slow;
  record.log_ms = told.median_ms > 0 ? std::log(told.median_ms) : 0;
  record.lo_ms = told.lo_ms;
  record.hi_ms = told.hi_ms;
  record.cell = told.cell.value_or(Cell{});
  record.moves = told.moves;
  reward(pending, record, told.seconds);
  records_.push_back(std::move(record));
  const std::size_t at = records_.size() - 1;
  record_of_[key] = at;
  const bool best = records_[at].ok && (!any_ || records_[at].log_ms < records_[best_].log_ms);
  if (best) best_ = at;
  any_ = any_ || records_[at].ok;
  const int home = pending.agent < 0 ? 0 : agents_[static_cast<std::size_t>(pending.agent)].island;
  Island& island = islands_[static_cast<std::size_t>(home)];
  ++island.fruitless;
  if (enter(island, at)) island.fruitless = 0;
  rested_ = rested_ || islands_[0].fruitless > options_.settle_for;
  if (home != 0) {
    if (best) enter(islands_[0], at);
    if (island.fruitless > options_.settle_for) {
      island.ranking.clear();
      island.founding = options_.founders;
      island.fruitless = 0;
    }
  }
  if (records_.size() % static_cast<std::size_t>(options_.migrate_every) == 0) migrate();
}

void Swarm::migrate() {
  // Each island's best goes to the next of the ring, all at once, as a partner and not as one of its own: else every
  // island would soon stand on the same peak.
  std::vector<std::optional<Elite>> leaving;
  for (const Island& island : islands_) leaving.push_back(island.archive.best());
  for (std::size_t i = 0; i < islands_.size(); ++i) {
    if (leaving[i]) islands_[(i + 1) % islands_.size()].archive.add(*leaving[i]);
  }
}

void Swarm::tell_duplicate(const codegen::Genome& genome) {
  if (const auto code = space_.encode(genome)) pending_.erase(space_.key(*code));
}

void Swarm::tell_again(const codegen::Genome& genome, const Told& told) {
  const auto code = space_.encode(genome);
  if (!code) return;
  const auto found = record_of_.find(space_.key(*code));
  if (found == record_of_.end()) return;
  const std::size_t at = found->second;
  Record& record = records_[at];
  record.ok = told.ok;
  if (told.ok && told.median_ms > 0) record.log_ms = std::log(told.median_ms);
  for (Island& island : islands_) {
    const bool member = std::erase(island.ranking, at) > 0;
    if (!told.ok) {
      island.archive.drop(at);
      continue;
    }
    if (const auto& held = island.archive.at(record.cell); held && held->id == at)
      island.archive.settle({record.cell, told.median_ms, told.lo_ms, told.hi_ms, at});
    if (!member) continue;
    const auto to =
        std::ranges::upper_bound(island.ranking, record.log_ms, {}, [&](std::size_t i) { return records_[i].log_ms; });
    island.ranking.insert(to, at);
  }
  // The best may have been lucky.
  any_ = false;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!records_[i].ok || (any_ && records_[i].log_ms >= records_[best_].log_ms)) continue;
    best_ = i;
    any_ = true;
  }
}

FunnelCounts Swarm::funnel() const {
  FunnelCounts out = funnel_;
  out.drawn += stock_.drawn();
  return out;
}

std::vector<Swarm::AgentReport> Swarm::agents() const {
  const auto shares = who_.shares();
  std::vector<AgentReport> out;
  for (std::size_t i = 0; i < agents_.size(); ++i)
    out.push_back({agents_[i].focus, agents_[i].island, agents_[i].proposed, shares[i], agents_[i].there});
  return out;
}

}  // namespace planish::search
