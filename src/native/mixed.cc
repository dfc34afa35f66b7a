// mixed.h for one instruction set: compiled once for each, with KANDLE_ISA naming its namespace.
// Lanes run over outputs, as in slim.h; where there is one output, over points.
#include "mixed.h"

#include <algorithm>

#include "slim.h"

namespace kandle {
namespace KANDLE_ISA {
namespace {

// One: whether there is one output.
template <class T, int L, bool One>
struct Mixed : Slim<T, L, 2, 1> {
  using Base = Slim<T, L, 2, 1>;
  using Base::args, Base::cell_grid, Base::rows, Base::kGroup, Base::kTableLanes, Base::kTable;
  using typename Base::Out, typename Base::Vec;
  static constexpr int C = Base::C, kCopies = Base::kCopies;
  static constexpr std::int64_t B = Base::kBackwardBlock;
  using Point = typename Base::template Point<B>;

  const MixedArgs<T>& a;

  explicit Mixed(const MixedArgs<T>& a) : Base(a.layer), a(a) {}

  // Rows of outputs in whole vectors, zeros where they are missing; a single output is a row.
  void load_rows(const T* source, std::int64_t start, std::int64_t count, T* out) const {
    const std::int64_t n_out = args.n_out;
    if (!source || !One) std::fill_n(out, count * (One ? 1 : L), T(0));
    if (!source) return;
    if constexpr (One) {
      std::copy_n(source + start, count, out);
    } else {
      for (std::int64_t s = 0; s < count; ++s)
        std::copy_n(source + (start + s) * n_out, n_out, out + s * L);
    }
  }

  void inputs(std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = args.n, n_in = args.n_in, size = rows * L, sums = kCopies * size;
    T* packed = scratch<T, 0>((end - begin) * size);
    this->template pack<false>(0, begin, end, packed);
    T* moments = scratch<T, 1>((end - begin) * sums);
    std::fill_n(moments, (end - begin) * sums, T(0));
    // p, q, s and g of a block, the lanes of dx and du, their columns of a group, and the moments.
    T* block = scratch<T, 2>(6 * B * L + 2 * kGroup * B + (2 * kRows) * B);
    T *lanes = block + 4 * B * L, *columns = lanes + 2 * B * L;
    T* x = scratch<T, 3>(kGroup * C * B + kTable * B);
    T* table = x + kGroup * C * B;
    std::int32_t* cells = scratch<std::int32_t, 4>(B);
    std::fill_n(x, kGroup * C * B, T(0));
    const T* const points[C] = {args.x.data, a.u, a.v, a.w};
    const T* const cotangents[4] = {a.p, a.q, a.s, a.g};
    T* const targets[2] = {a.dx, a.du};
    const auto visit = a.v ? visitor<true>() : visitor<false>();
    for (std::int64_t start = 0; start < n; start += B) {
      const std::int64_t count = std::min(B, n - start);
      for (int c = 0; c < 4; ++c) load_rows(cotangents[c], start, count, block + c * B * L);
      for (std::int64_t group = begin; group < end; group += kGroup) {
        const std::int64_t width = std::min<std::int64_t>(kGroup, end - group);
        for (int c = 0; c < C; ++c)
          if (points[c])
            load_columns<T, kGroup>(points[c] + start * n_in + group, n_in, count, width, x + c * B,
                                    C * B);
        for (std::int64_t j = 0; j < width; ++j) {
          const std::int64_t i = group - begin + j;
          this->template tabulate<4, B>(x + j * C * B, round_up(count, kTableLanes), table, cells);
          (this->*visit)(table, cells, count, packed + i * size, block, moments + i * sums, lanes);
          for (int c = 0; c < 2; ++c)
            if (targets[c]) store_sums(lanes + c * B * L, count, columns + (c * kGroup + j) * B);
        }
        for (int c = 0; c < 2; ++c)
          if (targets[c])
            store_columns<T, kGroup>(columns + c * kGroup * B, B, count, width,
                                     targets[c] + start * n_in + group, n_in);
      }
    }
    if (!args.want_w) return;
    if constexpr (One)
      for (std::int64_t feature = 0; feature < (end - begin) * kCopies; ++feature)
        spread(moments + feature * size);
    this->unpack(0, begin, end, moments);
  }

  using Visit = void (Mixed::*)(const T*, const std::int32_t*, std::int64_t, const T*, const T*, T*,
                                T*) const;

  template <bool Bent>
  Visit visitor() const {
    if constexpr (One) {
      return args.want_w ? &Mixed::template single<Bent, true>
                         : &Mixed::template single<Bent, false>;
    } else {
      return args.want_w ? &Mixed::template feature<Bent, true>
                         : &Mixed::template feature<Bent, false>;
    }
  }

  // Sums over outputs, with respect to x.
  void store_sums(const T* lanes, std::int64_t count, T* out) const {
    if constexpr (One) {
      for (std::int64_t s = 0; s < count; ++s) out[s] = cell_grid.inverse * lanes[s];
    } else {
      for (std::int64_t s = 0; s < count; s += L)
        Out::store(out + s, cell_grid.inverse * lane_sums<T, L>(lanes + s * L));
    }
  }

  // The four moments of a cell, which `single` puts side by side, to the rows that they belong to.
  void spread(T* moments) const {
    for (std::int64_t cell = 0; cell < this->n_cells; ++cell) {
      T* m = moments + (1 + kRows * cell) * L;
      for (int row = 1; row < kRows; ++row) m[row * L] = m[row], m[row] = T(0);
    }
  }

  // `feature` of one output, with lanes over points.
  template <bool Bent, bool WantW>
  void single(const T* table, const std::int32_t* cells, std::int64_t count, const T* w,
              const T* block, T* sums, T* lanes) const {
    using Points = Simd<T, kTableLanes>;
    using Many = typename Points::Vec;
    // Rows of B: the coefficients D1, D2 and D3 of the points' cells, then the moments, and those
    // of the residual.
    T* d = lanes + 2 * B * L + 2 * kGroup * B;
    T *moments = d + 3 * B, *residual = moments + kRows * B;
    for (std::int64_t s = 0; s < count; ++s) {
      const T* cell = w + (1 + kRows * static_cast<std::int64_t>(cells[s])) * L;
      for (int row = 1; row < kRows; ++row) d[(row - 1) * B + s] = cell[row * L];
    }
    const T r = w[0];
    for (std::int64_t s = 0; s < count; s += kTableLanes) {
      const typename Base::Points::template Point<Points, B> at{table + s};
      const auto load = [&](int c) { return Points::load(block + c * B * L + s); };
      const Many D[kRows] = {Many{}, Points::load(d + s), Points::load(d + B + s),
                             Points::load(d + 2 * B + s)};
      const Many p = load(0), q = load(1), along = at.along(0), R = Points::splat(r);
      const Many phi1 = polynomial<1>(D, R, at), phi2 = polynomial<2>(D, R, at);
      Many slope = q * along, bend{}, du = q * phi1;
      if constexpr (Bent) {
        const Many g = load(3), other = at.along(1);
        slope += load(2) * other + g * at.bent(0);
        bend = g * (along * other);
        du += other * (g * phi2);
      }
      Many dx = p * phi1 + slope * phi2;
      if constexpr (Bent) dx += bend * polynomial<3>(D, R, at);
      Points::store(lanes + s, dx);
      Points::store(lanes + B * L + s, du);
      if constexpr (WantW) {
        const Many v = at.v(), half = at.half();
        Points::store(moments + s, p);
        Points::store(moments + B + s, p * v + slope);
        Points::store(moments + 2 * B + s, p * half + slope * v + bend);
        Points::store(moments + 3 * B + s, p * at.sixth() + slope * half + bend * v);
        Points::store(residual + s,
                      p * at.residual(0) + slope * at.residual(1) + bend * at.residual(2));
      }
    }
    if constexpr (WantW) {
      using Four = Simd<T, kRows>;
      for (std::int64_t s = 0; s < count; ++s) {
        T* moment =
            sums + s % kCopies * (rows * L) + (1 + kRows * static_cast<std::int64_t>(cells[s])) * L;
        const typename Four::Vec more = {moments[s], moments[B + s], moments[2 * B + s],
                                         moments[3 * B + s]};
        Four::store(moment, Four::load(moment) + more);
      }
      // Sums side by side: one after the other would wait for each other.
      constexpr int kSums = 8;
      T partial[kSums] = {};
      for (std::int64_t s = 0; s < count; s += kSums)
        for (std::int64_t j = 0; j < std::min<std::int64_t>(kSums, count - s); ++j)
          partial[j] += residual[s + j];
      for (int j = 0; j < kSums; ++j) sums[0] += partial[j];
    }
  }

  // One feature on one block. Bent: whether there is a v, and all that goes with it.
  template <bool Bent, bool WantW>
  void feature(const T* table, const std::int32_t* cells, std::int64_t count, const T* w,
               const T* block, T* sums, T* lanes) const {
    const std::int64_t copy = rows * L;
    const Vec r = Out::load(w);
    Vec residual[kCopies] = {};
    if constexpr (WantW)
      for (int c = 0; c < kCopies; ++c) residual[c] = Out::load(sums + c * copy);
    const auto add = [&](std::int64_t s, int c) {
      const Point at{{table + s}};
      const std::int64_t cell = (1 + kRows * static_cast<std::int64_t>(cells[s])) * L;
      Vec d[kRows];
      for (int row = 0; row < kRows; ++row) d[row] = Out::load(w + cell + row * L);
      const Vec p = Out::load(block + s * L), q = Out::load(block + (B + s) * L);
      const Vec phi1 = polynomial<1>(d, r, at), phi2 = polynomial<2>(d, r, at);
      Vec slope = q * at.along(0), bend{}, du = q * phi1;
      if constexpr (Bent) {
        const Vec g = Out::load(block + (3 * B + s) * L);
        slope += Out::load(block + (2 * B + s) * L) * at.along(1) + g * at.bent(0);
        bend = g * (at.along(0) * at.along(1));
        du += at.along(1) * (g * phi2);
      }
      Vec dx = p * phi1 + slope * phi2;
      if constexpr (Bent) dx += bend * polynomial<3>(d, r, at);
      Out::store(lanes + s * L, dx);
      Out::store(lanes + (B + s) * L, du);
      if constexpr (WantW) {
        T* moment = sums + c * copy + cell;
        Vec m[kRows];
        for (int row = 0; row < kRows; ++row) m[row] = Out::load(moment + row * L);
        m[0] += p;
        m[1] += p * at.v() + slope;
        m[2] += p * at.half() + slope * at.v();
        m[3] += p * at.sixth() + slope * at.half();
        residual[c] += p * at.residual(0) + slope * at.residual(1);
        if constexpr (Bent) {
          m[2] += bend;
          m[3] += bend * at.v();
          residual[c] += bend * at.residual(2);
        }
        for (int row = 0; row < kRows; ++row) Out::store(moment + row * L, m[row]);
      }
    };
    std::int64_t s = 0;
    for (; s + kCopies <= count; s += kCopies)
#pragma GCC unroll 4
      for (int c = 0; c < kCopies; ++c) add(s + c, c);
    for (int c = 0; s < count; ++s, ++c) add(s, c);
    if constexpr (WantW)
      for (int c = 0; c < kCopies; ++c) Out::store(sums + c * copy, residual[c]);
  }
};

template <class T>
void mixed(const MixedArgs<T>& a, std::int64_t begin, std::int64_t end) {
  constexpr int L = kLanes<T>, kHalf = std::max(L / 2, 2), kOne = std::max(kHalf, kRows);
  if (a.layer.n_out == 1) return Mixed<T, kOne, true>(a).inputs(begin, end);
  if (L > 4 && a.layer.n_out <= L / 2) return Mixed<T, kHalf, false>(a).inputs(begin, end);
  Mixed<T, L, false>(a).inputs(begin, end);
}

}  // namespace

const MixedTable& mixed_table() {
  static const MixedTable instance{mixed<float>, mixed<double>};
  return instance;
}

}  // namespace KANDLE_ISA
}  // namespace kandle
