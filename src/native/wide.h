// The layer of cubics with more than one vector of outputs and no derivatives: lanes run over
// outputs, and the samples of a block are sorted by cell (sorted.h).
#pragma once

#include <algorithm>

#include "ahead.h"
#include "few_rows.h"
#include "jet.h"
#include "sorted.h"

namespace kandle {
namespace KANDLE_ISA {

// Sorted points of some features and blocks of samples, each in a slot of its own; with Slope, for
// the backward pass.
template <class T, bool Slope>
class PointSlots {
 public:
  PointSlots(const JetArgs<T>& a, std::int64_t samples, std::int64_t slots)
      : grid_(a.spline),
        residual_(a.residual),
        n_cells_(cell_count(a.spline)),
        pitch_(round_up(samples, kLanes<T>)),
        rows_(scratch<T, 3>(slots * kRowCount * pitch_)),
        order_(scratch<std::uint16_t, 3>(slots * CellOrder::room(pitch_))),
        starts_(scratch<std::int32_t, 3>(slots * (n_cells_ + 1) + pitch_)),
        cells_(starts_ + slots * (n_cells_ + 1)) {}

  // What one slot takes.
  static std::int64_t bytes(const JetArgs<T>& a, std::int64_t samples) {
    const std::int64_t pitch = round_up(samples, kLanes<T>);
    return kRowCount * pitch * static_cast<std::int64_t>(sizeof(T)) + 2 * CellOrder::room(pitch) +
           4 * (cell_count(a.spline) + 1);
  }

  SortedPoints<T> at(std::int64_t slot) const {
    const CellOrder sorted = order(slot);
    return {sorted.order, sorted.starts, n_cells_, rows(slot)};
  }

  // The points x[0 .. count - 1] of a feature; numbers up to the next whole vector are read too.
  void fill(const T* x, std::int64_t count, std::int64_t slot) const {
    rows(slot).template fill<Slope>(x, count, grid_, residual_, cells_);
    sort_cells(cells_, count, n_cells_, order(slot));
  }

  // Of a gradient in u, to get that in x.
  T inverse() const { return grid_.inverse; }

 private:
  static constexpr std::int64_t kRowCount = Slope ? 3 : 2;

  PointRows<T> rows(std::int64_t slot) const { return {rows_ + slot * kRowCount * pitch_, pitch_}; }
  CellOrder order(std::int64_t slot) const {
    return {order_ + slot * CellOrder::room(pitch_), starts_ + slot * (n_cells_ + 1)};
  }

  const Cells<T> grid_;
  const bool residual_;
  const std::int64_t n_cells_, pitch_;
  T* rows_;
  std::uint16_t* order_;
  std::int32_t *starts_, *cells_;
};

// C vectors from `count` numbers; what is missing is zero.
template <class T, int L, int C>
KANDLE_INLINE void copy_row(const T* from, std::int64_t count, T* to) {
  using S = Simd<T, L>;
  if (count == C * L) {
    for (int c = 0; c < C; ++c) S::store(to + c * L, S::load(from + c * L));
  } else {
    std::fill(std::copy_n(from, count, to), to + C * L, T(0));
  }
}

template <class T>
struct Wide : Jet<T, kLanes<T>, 3, 0, 0> {
  static constexpr int L = kLanes<T>;
  using Base = Jet<T, L, 3, 0, 0>;
  using Base::args, Base::degree, Base::rows, Base::n_cells, Base::width, Base::kGroup,
      Base::kStrip, Base::kKeptBytes, Base::kKeptWidth;
  using ForwardPoints = PointSlots<T, false>;
  using BackwardPoints = PointSlots<T, true>;

  static constexpr int kFewRows = 4;  // that are evaluated without packing, at most
  // Vectors of outputs whose weights, or sums, stay in registers.
  static constexpr int kForward = kRegisters == 32 ? 4 : 2, kBackward = 2;

  const std::int64_t block;  // samples that are sorted together

  explicit Wide(const JetArgs<T>& a) : Base(a), block(sorted_block(n_cells)) {}

  void forward(std::int64_t model, Range samples, Range outputs) const {
    if (samples.end - samples.begin <= few_rows()) return few(model, samples, outputs);
    for (std::int64_t start = samples.begin; start < samples.end; start += kStrip) {
      const Range part{start, std::min(start + kStrip, samples.end)};
      const std::int64_t count = part.end - part.begin, blocks = (count + block - 1) / block;
      const std::int64_t bytes = args.n_in * blocks * ForwardPoints::bytes(args, block);
      const bool keep = outputs.end - outputs.begin > width && bytes <= kKeptBytes;
      const std::int64_t most = keep ? kKeptWidth : width;
      const ForwardPoints points(args, std::min(block, count),
                                 (keep ? args.n_in : kGroup) * blocks);
      if (keep)
        for (std::int64_t i = 0; i < args.n_in; i += kGroup)
          prepare(model, part, i, points, i * blocks);
      for (std::int64_t o = outputs.begin; o < outputs.end; o += most)
        strip(model, part, {o, std::min(o + most, outputs.end)}, outputs.end, keep, points);
    }
  }

  // Samples for which packing the weights does not pay: fewer than one for eight of their rows.
  std::int64_t few_rows() const { return std::min<std::int64_t>(rows / 8, kFewRows); }

  // The same as below, to the last bit, without packed weights. A point's features are tabulated
  // together, as the points of a feature are elsewhere.
  void few(std::int64_t model, Range samples, Range outputs) const {
    if (samples.begin == samples.end) return;
    const std::int64_t n_in = args.n_in, count = samples.end - samples.begin;
    const std::int64_t pitch = round_up(n_in, L);
    T* x = scratch<T, 3>((1 + 2 * kFewRows) * pitch);
    std::int32_t* cells = scratch<std::int32_t, 3>(kFewRows * pitch);
    FewPoint<T> points[kFewRows];
    for (std::int64_t s = 0; s < count; ++s) {
      const T* row = args.x.at(model) + (samples.begin + s) * n_in;
      std::fill(std::copy_n(row, n_in, x), x + pitch, T(0));
      points[s] = {{x + (1 + 2 * s) * pitch, pitch}, cells + s * pitch};
      points[s].rows.template fill<false>(x, pitch, this->cell_grid, args.residual,
                                          cells + s * pitch);
    }
    T* y = args.y + (model * args.n + samples.begin) * args.n_out + outputs.begin;
    with_count<kFewRows>(count, [&](auto rows) {
      evaluate_few<T, L, rows()>(args, model, outputs, points, y, args.n_out);
    });
  }

  // Sorts the points of a group of features in all blocks of a strip; those of feature i + f in
  // block j get the slot first + f + j times the features of a group.
  void prepare(std::int64_t model, Range samples, std::int64_t i, const ForwardPoints& points,
               std::int64_t first) const {
    const std::int64_t features = std::min<std::int64_t>(kGroup, args.n_in - i);
    T* x = scratch<T, 5>(kGroup * block);
    for (std::int64_t start = samples.begin; start < samples.end;
         start += block, first += features) {
      const std::int64_t count = std::min(block, samples.end - start);
      turn(args.x.at(model), start, count, i, features, x);
      for (std::int64_t f = 0; f < features; ++f) points.fill(x + f * block, count, first + f);
    }
  }

  // The outputs of one tile at some samples; those up to `last_output` follow. All features of a
  // group meet some vectors of outputs, which stay in the cache, before the next ones.
  void strip(std::int64_t model, Range samples, Range outputs, std::int64_t last_output,
             bool prepared, const ForwardPoints& points) const {
    const std::int64_t n_in = args.n_in, n_out = args.n_out;
    const std::int64_t count = samples.end - samples.begin;
    const std::int64_t n_tile = outputs.end - outputs.begin, pitch = round_up(n_tile, L);
    T* y = scratch<T, 1>(count * pitch);  // chunk by chunk, (count, outputs of the chunk)
    T* packed = scratch<T, 0>(std::min<std::int64_t>(kGroup, n_in) * rows * pitch);
    const T* bias = args.bias.at(model) + outputs.begin;
    T* target = args.y + (model * args.n + samples.begin) * n_out + outputs.begin;
    const auto for_chunks = [&](const auto& visit) {
      Base::template for_chunks<kForward>(pitch, [&](std::int64_t o, auto size) {
        visit(o, size, std::min<std::int64_t>(size() * L, n_tile - o), y + o * count);
      });
    };
    for_chunks([&](std::int64_t o, auto size, std::int64_t filled, T* to) {
      for (std::int64_t s = 0; s < count; ++s, to += size() * L)
        copy_row<T, L, size()>(bias + o, filled, to);
    });
    const std::int64_t blocks = (count + block - 1) / block;
    for (std::int64_t i = 0; i < n_in; i += kGroup) {
      const Tile part = this->tile(i, n_in, outputs.begin, outputs.end);
      const Tile next = i + kGroup < n_in ? this->tile(i + kGroup, n_in, outputs.begin, outputs.end)
                                          : this->tile(0, n_in, outputs.end,
                                                       std::min(outputs.end + n_tile, last_output));
      const std::int64_t steps = part.features * ((pitch + kForward * L - 1) / (kForward * L));
      Ahead<T> ahead(args, model, next, steps, false);
      load_weights<T, L>(args, model, part, degree, packed);
      const std::int64_t first = prepared ? i * blocks : 0;
      if (!prepared) prepare(model, samples, i, points, first);
      for (std::int64_t b = 0; b < blocks; ++b)
        for_chunks([&](std::int64_t o, auto size, std::int64_t, T* to) {
          for (std::int64_t f = 0; f < part.features; ++f) {
            if (b == 0) ahead.step();
            const std::int64_t slot = first + b * part.features + f;
            add_sorted<T, L, size()>(points.at(slot), packed + f * rows * pitch + o, pitch,
                                     to + b * block * (size() * L), size() * L);
          }
        });
    }
    for_chunks([&](std::int64_t o, auto size, std::int64_t filled, const T* from) {
      for (std::int64_t s = 0; s < count; ++s, from += size() * L) {
        T* to = target + s * n_out + o;
        if (filled == size() * L) {
          copy_row<T, L, size()>(from, filled, to);
        } else {
          std::copy_n(from, filled, to);
        }
      }
    });
  }

  // Tiles of outputs are the outer loop: their rows of weights advance side by side, page by page.
  // The tables of all points are kept for all of them where they are small enough. Tiles are
  // narrower then, so that the next one fits the second-level cache too; but not for the gradient
  // of the inputs, which is summed tile by tile.
  void backward(std::int64_t model, std::int64_t begin, std::int64_t end) const {
    if (args.n_out == 0 && args.want_x && begin == 0)
      std::fill_n(args.dx + model * args.n * args.n_in, args.n * args.n_in, T(0));
    const std::int64_t samples = std::min(block, args.n);
    const bool keep = args.n <= block && args.n_out > width &&
                      args.n_in * BackwardPoints::bytes(args, samples) <= kKeptBytes;
    const std::int64_t most = keep && !args.want_x ? std::min(width, kKeptWidth) : width;
    const BackwardPoints points(args, samples, keep ? end - begin : kGroup);
    const auto part = [&](std::int64_t i, std::int64_t o) {
      return this->tile(i, end, o, std::min(o + most, args.n_out));
    };
    if (keep)
      for (std::int64_t i = begin; i < end; i += kGroup)
        prepare(model, 0, args.n, part(i, 0), points, i - begin);
    for (std::int64_t o = 0; o < args.n_out; o += most)
      for (std::int64_t i = begin; i < end; i += kGroup) {
        const Tile next = i + kGroup < end        ? part(i + kGroup, o)
                          : o + most < args.n_out ? part(begin, o + most)
                                                  : Tile{};
        group(model, {begin, end}, part(i, o), next, keep, points);
      }
    if (args.want_w && begin == 0) store_bias_gradient<T, L>(args, model);
  }

  // Sorts the points of a tile's features in a block of samples.
  void prepare(std::int64_t model, std::int64_t start, std::int64_t count, const Tile& tile,
               const BackwardPoints& points, std::int64_t slot) const {
    T* x = scratch<T, 5>(kGroup * block);
    turn(args.x.at(model), start, count, tile.feature, tile.features, x);
    for (std::int64_t f = 0; f < tile.features; ++f) points.fill(x + f * block, count, slot + f);
  }

  // The gradients of one tile of the features of a task, whose points may be `prepared`.
  void group(std::int64_t model, Range task, const Tile& tile, const Tile& next, bool prepared,
             const BackwardPoints& points) const {
    const std::int64_t n = args.n, features = tile.features, size = rows * tile.pitch;
    const bool want_x = args.want_x, want_w = args.want_w;
    T* packed = scratch<T, 0>(want_x ? features * size : 0);
    T* dw = scratch<T, 1>(want_w ? features * size : 0);
    T* g = scratch<T, 2>(block * tile.pitch);
    T* dx = scratch<T, 4>((kGroup + L) * block);
    T* lanes = dx + kGroup * block;
    const std::int64_t slot = prepared ? tile.feature - task.begin : 0;
    if (want_x) load_weights<T, L>(args, model, tile, degree, packed);
    if (want_w && n == 0) std::fill_n(dw, features * size, T(0));
    for (std::int64_t start = 0; start < n; start += block) {
      const std::int64_t count = std::min(block, n - start);
      if (tile.feature == task.begin || n > block) load_gradients(model, start, count, tile, g);
      if (!prepared) prepare(model, start, count, tile, points, slot);
      if (want_x && tile.output > 0)
        turn(args.dx + model * n * args.n_in, start, count, tile.feature, features, dx);
      const std::int64_t steps = features * ((tile.pitch + kBackward * L - 1) / (kBackward * L));
      Ahead<T> ahead(args, model, next, steps, true);
      for (std::int64_t f = 0; f < features; ++f) {
        const SortedGradients<T, L> feature(points.at(slot + f), count, tile.pitch);
        Base::template for_chunks<kBackward>(tile.pitch, [&](std::int64_t o, auto chunk) {
          if (start == 0 && want_w) ahead.step();
          const auto add = [&](auto weights, auto inputs, auto first) {
            feature.template add<chunk(), weights(), inputs(), first()>(
                packed + f * size + o, g + o * count, start == 0, dw + f * size + o, lanes);
          };
          constexpr std::true_type yes;
          constexpr std::false_type no;
          if (!want_x) return add(yes, no, yes);
          if (want_w) return o == 0 ? add(yes, yes, yes) : add(yes, yes, no);
          o == 0 ? add(no, yes, yes) : add(no, yes, no);
        });
        if (want_x)
          sum_lanes<T, L>(lanes, count, points.inverse(), tile.output > 0, dx + f * block);
      }
      if (want_x)
        store_columns<T, kGroup>(dx, block, count, features,
                                 args.dx + (model * n + start) * args.n_in + tile.feature,
                                 args.n_in);
    }
    if (!want_w) return;
    store_gradients<T, L>(args, model, tile, degree, dw);
  }

  // The columns of some features in a block of samples of an array (n, n_in); up to the next whole
  // vector, numbers are zero.
  void turn(const T* source, std::int64_t start, std::int64_t count, std::int64_t i,
            std::int64_t features, T* columns) const {
    load_columns<T, kGroup>(source + start * args.n_in + i, args.n_in, count, features, columns,
                            block);
    for (std::int64_t f = 0; f < features && count % L; ++f)
      std::fill_n(columns + f * block + count, L - count % L, T(0));
  }

  // The gradients of a tile's outputs, chunk by chunk of outputs, (samples, outputs of the chunk).
  void load_gradients(std::int64_t model, std::int64_t start, std::int64_t count, const Tile& tile,
                      T* to) const {
    const T* g = args.g.at(model) + start * args.n_out + tile.output;
    Base::template for_chunks<kBackward>(tile.pitch, [&](std::int64_t o, auto size) {
      const std::int64_t filled = std::min<std::int64_t>(size() * L, tile.outputs - o);
      for (std::int64_t s = 0; s < count; ++s, to += size() * L)
        copy_row<T, L, size()>(g + s * args.n_out + o, filled, to);
    });
  }
};

}  // namespace KANDLE_ISA
}  // namespace kandle
