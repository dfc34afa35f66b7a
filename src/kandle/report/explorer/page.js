"use strict";
(() => {
  const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };
  const NONE = 65535;
  const COLOURS = {
    "baseline": "#7f7f7f", "lecun-numerical": "#e69f00", "lecun-normalized": "#cc79a7",
    "glorot": "#2b8cd6", "power-law": "#e0631b", "quiet": "#009e73",
  };
  // For schemes of users and for variants, which have no colour of their own.
  const MORE = ["#56b4e9", "#b59f00", "#8c6bb1", "#d1495b", "#44aa99", "#a6761d"];
  const METRICS = {
    "loss": "Final loss", "l2": "Relative L² error",
    "loss-ratio": "Loss relative to the baseline", "l2-ratio": "L² relative to the baseline",
  };
  const BLOCKS = { ntk: "kernel", pde: "PDE residual", bc: "conditions" };
  const $ = (id) => document.getElementById(id);

  // data ------------------------------------------------------------------------------------

  function unpack({ type, base64 }) {
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new TYPES[type](bytes.buffer);
  }

  function exponentials({ low, high, levels }) {
    return Array.from(unpack(levels), (v) => v === NONE ? null : 10 ** (low + (high - low) * v / (NONE - 1)));
  }

  // Studies are unpacked when first chosen: a page of many opens at once.
  function open(study) {
    if (study.open) return study;
    for (const name of Object.keys(study.cells)) study.cells[name] = unpack(study.cells[name]);
    const { cell, grid } = study.curves;
    study.curveOf = new Map();
    const cells = unpack(cell), grids = unpack(grid);
    let at = 0;
    cells.forEach((owner, i) => {
      const steps = study.curves.steps[grids[i]];
      study.curveOf.set(owner, [steps, at]);
      at += steps.length;
    });
    study.curveLoss = exponentials(study.curves.loss);
    study.index = new Map();
    for (let i = 0; i < study.count; i++) study.index.set(keyOf(study, i), i);
    study.open = true;
    return study;
  }

  const key = (problem, G, width, depth, scheme, alpha, beta) =>
    [problem, G, width, depth, scheme, alpha, beta].join();

  function keyOf(study, i) {
    const c = study.cells;
    return key(c.problem[i], c.G[i], c.width[i], c.depth[i], c.scheme[i], c.alpha[i], c.beta[i]);
  }

  // Text for Plotly, which reads a little HTML.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (value) => Number.isFinite(value) ? value.toExponential(2) : "–";
  const label = (scheme) => data.schemes[scheme] ?? scheme;
  const pairs = (study) => study.alpha.length * study.beta.length;
  // The power law, under its own name or as a variant: `power-law(gain=2)`.
  const searching = (scheme) => scheme === "power-law" || scheme.startsWith("power-law(");
  const colour = (study, scheme) => COLOURS[scheme] ?? MORE[study.schemes.filter((n) => !(n in COLOURS)).indexOf(scheme) % MORE.length];

  // state -----------------------------------------------------------------------------------

  const data = JSON.parse($("data").textContent);
  const state = { study: 0, problem: 0, metric: "loss", grid: 0, searched: "power-law", architecture: "all", cell: null, first: "power-law", second: "baseline", sort: ["problem", 1] };
  let tiles = null;

  const study = () => open(data.studies[state.study]);

  function options(select, entries, chosen) {
    select.replaceChildren(...entries.map(([value, text]) => {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = text;
      return option;
    }));
    const values = entries.map(([value]) => String(value));
    select.value = values.includes(String(chosen)) ? String(chosen) : values[0];
    return select.value;
  }

  function fillChoices() {
    const s = study();
    options($("study"), data.studies.map((d, i) => [i, d.name]), state.study);
    state.problem = Number(options($("problem"), s.problems.map((p, i) => [i, p.label]), state.problem));
    state.metric = options($("metric"), Object.entries(METRICS), state.metric);
    state.grid = Number(options($("grid"), s.G.map((G, i) => [i, G]), state.grid));
    const searched = s.schemes.filter(searching);
    state.searched = options($("searched"), searched.map((n) => [n, label(n)]), state.searched);
    $("searched").parentElement.hidden = searched.length < 2 || pairs(s) < 2;
    const shapes = s.width.flatMap((w, i) => s.depth.map((d, j) => [`${i},${j}`, `width ${w}, depth ${d}`]));
    state.architecture = options($("architecture"), [["all", "all widths and depths"], ...shapes], state.architecture);
    const schemes = s.schemes.flatMap((name) => !searching(name) || pairs(s) < 2
      ? [[name, label(name)]]
      : [[name, `${label(name)}, best exponents`], [`${name}${CELL}`, `${label(name)}, selected exponents`]]);
    // Where the scheme chosen before is missing, the last stands against the baseline: never one against itself.
    options($("first"), schemes, schemes.some(([value]) => value === state.first) ? state.first : schemes.at(-1)[0]);
    options($("second"), schemes, state.second);
    const seeds = `${s.seeds} seed${s.seeds === 1 ? "" : "s"}`;
    const left = s.left_out.length ? ` Excluded (different training settings): ${s.left_out.join("; ")}.` : "";
    $("summary").textContent = `${s.runs.toLocaleString("en")} runs of ${s.name}, up to ${seeds}, ` +
      `${s.steps.map((n) => n.toLocaleString("en")).join(", ")} steps${s.shortened ? " (training was shortened)" : ""}. A cell shows the run whose loss is nearest the median.${left}`;
    const region = s.regions[state.searched];
    $("region").textContent = region ? `Favourable exponents of this study: ${region}.` : "";
  }

  // values ----------------------------------------------------------------------------------

  function find(s, shape, scheme, alpha = NONE, beta = NONE) {
    const i = s.index.get(key(state.problem, ...shape, s.schemes.indexOf(scheme), alpha, beta));
    return i === undefined ? null : i;
  }

  function value(s, i) {
    const [metric, ratio] = state.metric.split("-");
    if (!ratio) return s.cells[metric][i];
    const c = s.cells, rival = find(s, [c.G[i], c.width[i], c.depth[i]], "baseline");
    return rival === null ? NaN : c[metric][i] / c[metric][rival];
  }

  function describe(s, i) {
    const c = s.cells, scheme = s.schemes[c.scheme[i]];
    const exponents = c.alpha[i] === NONE ? "" : ` (α = ${s.alpha[c.alpha[i]]}, β = ${s.beta[c.beta[i]]})`;
    const shape = `G = ${s.G[c.G[i]]}, width ${s.width[c.width[i]]}, depth ${s.depth[c.depth[i]]}`;
    const result = c.runs[i] ? `loss ${short(c.loss[i])}, L² ${short(c.l2[i])}` : "no run finished";
    return `${s.problems[c.problem[i]].label}, ${label(scheme)}${exponents}, ${shape}: ${result} (${c.runs[i]} of ${c.attempted[i]} runs finished)`;
  }

  // heatmaps --------------------------------------------------------------------------------

  // All heatmaps are tiles of one: drawn at once, with one colour scale. Above each is room for its title.
  const HEAD = 2;

  function layTiles(s) {
    const one = state.architecture === "all" ? null : state.architecture.split(",").map(Number);
    if (pairs(s) < 2) return laySchemes(s, one);
    const widths = one ? [one[0]] : s.width.map((_, i) => i), depths = one ? [one[1]] : s.depth.map((_, i) => i);
    const [na, nb] = [s.alpha.length, s.beta.length];
    const laid = blank(depths.length * (na + 1) - 1, widths.length * (nb + HEAD) - HEAD);
    const scheme = s.schemes.indexOf(state.searched);
    widths.forEach((w, r) => depths.forEach((d, q) => {
      const [left, bottom] = [q * (na + 1), (widths.length - 1 - r) * (nb + HEAD)];
      for (let a = 0; a < na; a++) for (let b = 0; b < nb; b++) {
        const i = s.index.get(key(state.problem, state.grid, w, d, scheme, a, b));
        laid.cells[bottom + b][left + a] = i ?? -1;
      }
      const some = (n) => [...new Set([0, Math.floor((n - 1) / 2), n - 1])];
      if (r === widths.length - 1) some(na).forEach((a) => laid.x.push([left + a, s.alpha[a]]));
      if (q === 0) some(nb).forEach((b) => laid.y.push([bottom + b, s.beta[b]]));
      laid.titles.push([left + (na - 1) / 2, bottom + nb - 0.4, `width ${s.width[w]}, depth ${s.depth[d]}`]);
    }));
    return Object.assign(laid, { across: "α", up: "β" });
  }

  // A study with one exponent pair or none: schemes across, architectures up.
  function laySchemes(s, one) {
    const shapes = s.width.flatMap((_, w) => s.depth.map((_, d) => [w, d])).filter(([w, d]) => !one || (w === one[0] && d === one[1]));
    const present = shapes.filter(([w, d]) => s.schemes.some((n) => anyOf(s, [state.grid, w, d], n) !== null));
    const laid = blank(s.schemes.length, Math.max(present.length, 1));
    present.forEach(([w, d], r) => {
      s.schemes.forEach((name, q) => { laid.cells[r][q] = anyOf(s, [state.grid, w, d], name) ?? -1; });
      laid.y.push([r, `${s.width[w]} × ${s.depth[d]}`]);
    });
    s.schemes.forEach((name, q) => laid.x.push([q, label(name)]));
    return Object.assign(laid, { across: "", up: "width × depth" });
  }

  function anyOf(s, shape, scheme) {
    return searching(scheme) && s.alpha.length ? find(s, shape, scheme, 0, 0) : find(s, shape, scheme);
  }

  function blank(columns, rows) {
    return { cells: Array.from({ length: rows }, () => Array(columns).fill(null)), x: [], y: [], titles: [] };
  }

  function drawHeatmap() {
    const s = study(), ratio = state.metric.endsWith("ratio");
    tiles = layTiles(s);
    const z = tiles.cells.map((row) => row.map((i) => i === null || i < 0 ? null : Math.log10(value(s, i))).map((v) => Number.isFinite(v) ? v : null));
    const text = tiles.cells.map((row) => row.map((i) => i === null ? "" : i < 0 ? "not run" : hover(s, i)));
    const marks = { x: [], y: [], text: [] };
    tiles.cells.forEach((row, y) => row.forEach((i, x) => {
      if (i !== null && i >= 0 && s.cells.runs[i] === 0) { marks.x.push(x); marks.y.push(y); marks.text.push(text[y][x]); }
    }));
    const seen = z.flat().filter((v) => v !== null);
    // Beyond three decades a ratio is simply much better (blue) or much worse (red).
    const reach = Math.min(3, Math.max(0.1, ...seen.map(Math.abs)));
    // The row β = 0 and other extremes must not use up the colours: the scale ends at the 2nd and 85th percentile.
    const sorted = Float64Array.from(seen).sort(), at = (share) => sorted[Math.round(share * (sorted.length - 1))];
    const [low, high] = [at(0.02), at(0.85)];
    const clipped = !ratio && seen.length > 0 && (sorted[0] < low || sorted[sorted.length - 1] > high);
    const range = !seen.length ? [0, 1] : ratio ? [-reach, reach] : [low, Math.max(high, low + 1e-9)];
    const ticks = decades(range);
    const narrow = $("heatmap").clientWidth < 600, lines = tiles.cells.length;
    const room = tiles.titles.length > 1 ? (narrow ? 34 : 46) : tiles.titles.length ? (narrow ? 26 : 34) : 10 + 3 * lines;
    $("heatmap").style.height = `${room}rem`;
    const map = {
      type: "heatmap", z, text, hoverinfo: "text", hoverongaps: false, xgap: narrow ? 0 : 1, ygap: narrow ? 0 : 1, zmin: range[0], zmax: range[1],
      colorscale: ratio ? "RdBu" : "Viridis",
      colorbar: { title: { text: METRICS[state.metric] + (clipped ? " (extremes clipped)" : ""), side: narrow ? "top" : "right" }, tickvals: ticks.map((t) => t[0]), ticktext: ticks.map((t) => t[1]), thickness: 12, ...(narrow ? { orientation: "h", y: -0.13, yanchor: "top", len: 1 } : {}) },
    };
    const crosses = { type: "scatter", mode: "markers", ...marks, hoverinfo: "text", marker: { symbol: "x-thin", size: 7, line: { width: 1.5, color: "#d1495b" } } };
    const size = narrow ? 9 : 12;
    const layout = theme({
      xaxis: { tickvals: tiles.x.map((t) => t[0]), ticktext: tiles.x.map((t) => plain(t[1])), title: { text: tiles.across }, showgrid: false, zeroline: false, fixedrange: true, range: [-0.5, tiles.cells[0].length - 0.5] },
      yaxis: { tickvals: tiles.y.map((t) => t[0]), ticktext: tiles.y.map((t) => plain(t[1])), title: { text: tiles.up }, showgrid: false, zeroline: false, fixedrange: true, range: [-0.5, tiles.cells.length + (tiles.titles.length ? 1 : -0.5)], automargin: true },
      annotations: tiles.titles.map(([x, y, t]) => ({ x, y, text: narrow ? t.replace("width ", "w").replace(", depth ", " d") : t, showarrow: false, yanchor: "bottom", yshift: -2, font: { size } })),
      height: $("heatmap").clientHeight, shapes: cursor(), margin: { l: narrow ? 44 : 60, r: narrow ? 8 : 20, t: 14, b: narrow ? 110 : 50 }, showlegend: false, hovermode: "closest",
    });
    Plotly.react("heatmap", [map, crosses], layout, config());
    $("heatmap-help").textContent = `${s.problems[state.problem].label}, G = ${s.G[state.grid]}, ${METRICS[state.metric].toLowerCase().replace("l²", "L²")}. ` +
      "Click a cell for its curves and spectra, or move with the arrow keys. A cross: no run finished; empty: not run.";
  }

  function hover(s, i) {
    return plain(describe(s, i)).replace(": ", "<br>").replace(", G", "<br>G");
  }

  function decades([low, high]) {
    // [position, label] of the ticks of a logarithmic scale, also if it spans less than a decade.
    const every = Math.max(1, Math.round((high - low) / 6)), span = high - low;
    const multiples = span >= 2 ? [1] : span > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
    const ticks = [];
    for (let t = Math.floor(low); t <= high; t++) {
      if (t % every !== 0) continue;
      for (const m of multiples) {
        const at = t + Math.log10(m);
        if (at >= low && at <= high) ticks.push([at, `${m}e${t}`]);
      }
    }
    return ticks;
  }

  function place(cell) {
    for (let y = 0; y < tiles.cells.length; y++) {
      const x = cell === null ? -1 : tiles.cells[y].indexOf(cell);
      if (x >= 0) return [x, y];
    }
    return null;
  }

  function cursor() {
    const at = place(state.cell);
    if (!at) return [];
    const box = { type: "rect", x0: at[0] - 0.5, x1: at[0] + 0.5, y0: at[1] - 0.5, y1: at[1] + 0.5 };
    return [{ ...box, line: { color: "#000", width: 4 } }, { ...box, line: { color: "#fff", width: 2 } }];
  }

  function select(cell) {
    if (cell === null || cell === undefined || cell < 0) return;
    state.cell = cell;
    // A point of the comparison may be of another grid size or architecture than is shown: go there.
    if (!place(cell) && !beside(cell)) return visit(cell);
    drawCell();
    if (ofCell("first") || ofCell("second")) drawCompare();
    Plotly.relayout("heatmap", { shapes: cursor() });
  }

  // Whether a cell is of what the heatmaps show, but of a scheme without exponents, so not on them.
  function beside(cell) {
    const s = study(), c = s.cells;
    return cell !== null && cell < s.count && pairs(s) > 1 && !searching(s.schemes[c.scheme[cell]]) &&
      c.problem[cell] === state.problem && c.G[cell] === state.grid && ["all", `${c.width[cell]},${c.depth[cell]}`].includes(state.architecture);
  }

  function visit(cell) {
    const s = study(), c = s.cells, scheme = s.schemes[c.scheme[cell]];
    state.grid = c.G[cell];
    if (state.architecture !== "all") state.architecture = `${c.width[cell]},${c.depth[cell]}`;
    if (searching(scheme)) state.searched = scheme;
    draw();
  }

  function move(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!steps || !tiles) return;
    event.preventDefault();
    const rows = tiles.cells.length, columns = tiles.cells[0].length;
    let [x, y] = place(state.cell) ?? [-steps[0], -steps[1]];
    do { x += steps[0]; y += steps[1]; } while (x >= 0 && y >= 0 && x < columns && y < rows && !(tiles.cells[y][x] >= 0 && tiles.cells[y][x] !== null));
    if (x >= 0 && y >= 0 && x < columns && y < rows) select(tiles.cells[y][x]);
  }

  // the selected cell -----------------------------------------------------------------------

  function drawCell() {
    const s = study(), i = state.cell;
    $("cell").textContent = describe(s, i);
    drawCurves(s, i);
    drawSpectra(s, i);
  }

  function drawCurves(s, i) {
    const c = s.cells, shape = [c.G[i], c.width[i], c.depth[i]];
    // Of several exponent pairs it is the selected one's curve; a single one belongs to every cell.
    const others = s.schemes.filter((n) => pairs(s) < 2 || !searching(n)).map((n) => anyOf(s, shape, n));
    const chosen = [...new Set([...others, i])].filter((j) => j !== null && s.curveOf.has(j));
    const traces = chosen.map((j) => {
      const [steps, at] = s.curveOf.get(j), scheme = s.schemes[c.scheme[j]];
      const exponents = c.alpha[j] === NONE ? "" : ` (${s.alpha[c.alpha[j]]}, ${s.beta[c.beta[j]]})`;
      return {
        type: "scatter", mode: "lines", x: steps, y: s.curveLoss.slice(at, at + steps.length), name: plain(label(scheme) + exponents),
        line: { color: colour(s, scheme), width: j === i ? 3 : 1.5, dash: j === i ? "solid" : "dot" },
        hovertemplate: "step %{x}: %{y:.2e}",
      };
    });
    show("curves", traces, theme({
      ...empty(traces, "No loss curve is stored for this cell"),
      xaxis: logarithmic("Step", traces.flatMap((t) => t.x)), yaxis: logarithmic("Training loss", traces.flatMap((t) => t.y)),
      legend: { orientation: "h", y: -0.28, yanchor: "top" }, showlegend: true, margin: { l: 64, r: 12, t: 10, b: 44 },
    }));
  }

  // Spectra live in studies of their own: any study's with this problem, shape and scheme will do.
  function drawSpectra(s, i) {
    const c = s.cells, problem = s.problems[c.problem[i]].name, same = (t, j) => {
      const d = t.cells, of = (u, e, axis, k) => e[axis][k] === NONE ? null : u[axis][e[axis][k]];
      return t.problems[d.problem[j]].name === problem && t.schemes[d.scheme[j]] === s.schemes[c.scheme[i]] &&
        ["G", "width", "depth", "alpha", "beta"].every((axis) => of(t, d, axis, j) === of(s, c, axis, i));
    };
    const traces = [];
    const found = data.studies.filter((t) => t.spectra.length).map(open)
      .flatMap((t) => t.spectra.filter((p) => same(t, p.cell)));
    const blocks = [...new Set(found.map((p) => p.block))];
    found.filter((p, n) => found.findIndex((o) => o.block === p.block) === n).forEach((p) => {
      const values = exponentials(p.values), n = p.index.length, last = p.steps.length - 1;
      p.steps.forEach((step, k) => traces.push({
        type: "scatter", mode: "lines", x: p.index, y: values.slice(k * n, (k + 1) * n),
        name: plain(`${blocks.length > 1 ? `${BLOCKS[p.block] ?? p.block}, ` : ""}step ${step}`),
        line: { color: k === 0 ? "#2f6fde" : k === last ? "#2e9e4f" : "#44aa99", dash: k === 0 ? "solid" : "dash", width: k === 0 || k === last ? 2.2 : 1.2 },
        showlegend: k < 2 || k === last, opacity: p.block === "bc" ? 0.6 : 1, hovertemplate: "index %{x}: %{y:.2e}",
      }));
    });
    show("spectra", traces, theme({
      ...empty(traces, "No spectrum is stored for this cell"),
      xaxis: logarithmic("Index", traces.flatMap((t) => t.x)), yaxis: logarithmic("Eigenvalue of the kernel", traces.flatMap((t) => t.y)),
      legend: { orientation: "h", y: -0.28, yanchor: "top" }, showlegend: true, margin: { l: 64, r: 12, t: 10, b: 44 },
    }));
  }

  // Powers of ten alone where there are several; without data, no axis at all.
  function logarithmic(title, values) {
    const seen = values.filter((v) => v > 0), span = seen.length ? Math.log10(seen.reduce((a, b) => Math.max(a, b)) / seen.reduce((a, b) => Math.min(a, b))) : 0;
    return { title: { text: title }, type: "log", exponentformat: "power", dtick: span > 1.5 ? Math.ceil(span / 8) : "D2", visible: seen.length > 0 };
  }

  // A plot without data takes little room, and one that gets some is redrawn at its full size.
  function show(id, traces, layout) {
    const box = $(id), empty = !traces.length;
    if (box.classList.contains("empty") !== empty) Plotly.purge(box);
    box.classList.toggle("empty", empty);
    Plotly.react(box, traces, layout, config());
  }

  const empty = (traces, message) => traces.length ? {} : {
    annotations: [{ text: message, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }],
  };

  // two schemes -----------------------------------------------------------------------------

  // What is chosen as "selected exponents" of a scheme ends in this.
  const CELL = "|cell";
  const ofCell = (id) => $(id).value.endsWith(CELL);

  // One cell an architecture: a scheme's own, the power law's of lowest loss, or of one pair.
  function contender(s, choice) {
    const fixed = choice.endsWith(CELL), scheme = fixed ? choice.slice(0, -CELL.length) : choice;
    const c = s.cells, best = new Map();
    const pair = fixed && state.cell !== null ? [c.alpha[state.cell], c.beta[state.cell]] : null;
    if (fixed && (!pair || pair[0] === NONE)) return best;
    for (let i = 0; i < s.count; i++) {
      if (c.problem[i] !== state.problem || s.schemes[c.scheme[i]] !== scheme || !c.runs[i]) continue;
      if (pair && (c.alpha[i] !== pair[0] || c.beta[i] !== pair[1])) continue;
      const shape = [c.G[i], c.width[i], c.depth[i]].join();
      if (!best.has(shape) || c.loss[i] < c.loss[best.get(shape)]) best.set(shape, i);
    }
    return best;
  }

  function drawCompare() {
    const s = study(), metric = state.metric.split("-")[0], c = s.cells;
    const [one, two] = [contender(s, $("first").value), contender(s, $("second").value)];
    const [a, b] = ["first", "second"].map((id) => $(id).selectedOptions[0]?.textContent ?? "");
    const both = [...one.keys()].filter((shape) => two.has(shape)).map((shape) => [one.get(shape), two.get(shape)]);
    const wins = both.filter(([i, j]) => c[metric][i] < c[metric][j]).length, of = both.length;
    // Half up in whole numbers, as in the tables.
    const percent = of ? (Math.floor((20000 * wins + of) / (2 * of)) / 100).toFixed(2) : null;
    $("verdict").textContent = of ? `${a} is lower in ${METRICS[metric].replace("Final", "final").replace("Relative", "relative")} than ${b} on ${wins} of ${of} architectures of ${s.problems[state.problem].label} (${percent} %).`
      : `There is no architecture of ${s.problems[state.problem].label} with both.` + (ofCell("first") || ofCell("second") ? " Select a cell of the heatmaps first." : "");
    const x = both.map(([, j]) => c[metric][j]), y = both.map(([i]) => c[metric][i]);
    const ends = [...x, ...y].filter((v) => v > 0), line = ends.length ? [Math.min(...ends), Math.max(...ends)] : [];
    const size = both.map(([i]) => 5 + 3 * Math.log2(s.width[c.width[i]] || 1) * 0.6);
    const points = {
      type: "scatter", mode: "markers", x, y, customdata: both.map(([i]) => i), hoverinfo: "text",
      text: both.map(([i, j]) => `G = ${s.G[c.G[i]]}, width ${s.width[c.width[i]]}, depth ${s.depth[c.depth[i]]}<br>${plain(a)}: ${short(c[metric][i])}<br>${plain(b)}: ${short(c[metric][j])}`),
      marker: { size, color: both.map(([i, j]) => c[metric][i] < c[metric][j] ? "#0b8f6a" : "#d1495b"), symbol: both.map(([i, j]) => c[metric][i] < c[metric][j] ? "circle" : "diamond"), opacity: 0.75 },
    };
    const diagonal = { type: "scatter", mode: "lines", x: line, y: line, hoverinfo: "skip", line: { dash: "dash", width: 1, color: "#888" } };
    Plotly.react("compare", [diagonal, points], theme({
      ...empty(both, "nothing to compare"),
      xaxis: logarithmic(plain(b), ends), yaxis: logarithmic(plain(a), ends),
      showlegend: false, hovermode: "closest", margin: { l: 64, r: 12, t: 10, b: 48 },
    }), config());
  }

  // win rates -------------------------------------------------------------------------------

  const COLUMNS = [
    ["problem", "Problem"], ["scheme", "Scheme"], ["metric", "Metric"], ["percent", "%"], ["wins", "Wins"], ["of", "Of"],
    ["low", "Low"], ["high", "High"], ["p", "p"],
  ];
  const NUMBERS = new Set(["percent", "wins", "of", "low", "high", "p"]);

  function drawWins() {
    const s = study(), [column, direction] = state.sort;
    const head = document.createElement("tr");
    COLUMNS.forEach(([name, text]) => {
      const th = document.createElement("th"), button = document.createElement("button");
      th.scope = "col";
      th.className = NUMBERS.has(name) ? "number" : "";
      th.setAttribute("aria-sort", name === column ? (direction > 0 ? "ascending" : "descending") : "none");
      button.type = "button";
      button.textContent = text;
      button.dataset.column = name;
      th.append(button);
      head.append(th);
    });
    const label_of = Object.fromEntries(s.problems.map((p) => [p.name, p.label]));
    const order = Object.fromEntries(s.problems.map((p, i) => [p.name, i]));
    const rows = s.wins.map((w) => ({ ...w, p: w.rank ?? w.sign }));
    const rank = (w) => column === "problem" ? order[w.problem] : w[column];
    rows.sort((u, v) => { const [a, b] = [rank(u), rank(v)]; return direction * (a < b ? -1 : a > b ? 1 : 0); });
    const shown = { problem: (w) => label_of[w.problem], scheme: (w) => label(w.scheme), metric: (w) => ({ l2: "L²" }[w.metric] ?? w.metric), percent: (w) => w.percent.toFixed(2), low: (w) => w.low.toFixed(1), high: (w) => w.high.toFixed(1), p: (w) => w.p.toExponential(1) };
    const body = rows.map((w) => {
      const tr = document.createElement("tr");
      COLUMNS.forEach(([name]) => {
        const td = document.createElement("td");
        td.className = NUMBERS.has(name) ? "number" : "";
        td.textContent = shown[name] ? shown[name](w) : w[name];
        tr.append(td);
      });
      return tr;
    });
    if (!body.length) {
      const tr = document.createElement("tr"), td = document.createElement("td");
      td.colSpan = COLUMNS.length;
      td.textContent = "This study has no baseline to compare with.";
      tr.append(td);
      body.push(tr);
    }
    // The header being used keeps the focus when it is redrawn.
    const used = document.activeElement?.dataset?.column;
    $("wins").tHead.replaceChildren(head);
    $("wins").tBodies[0].replaceChildren(...body);
    if (used) head.querySelector(`[data-column="${used}"]`)?.focus();
  }

  // looks -----------------------------------------------------------------------------------

  function theme(layout) {
    const css = getComputedStyle(document.documentElement), of = (name) => css.getPropertyValue(name).trim();
    const axis = { gridcolor: of("--line"), linecolor: of("--line"), zerolinecolor: of("--line") };
    return {
      paper_bgcolor: of("--ground"), plot_bgcolor: of("--gap"), font: { color: of("--ink"), family: "system-ui, sans-serif", size: 12 },
      hoverlabel: { bgcolor: of("--panel"), bordercolor: of("--line"), font: { color: of("--ink") } }, ...layout,
      xaxis: { ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis },
    };
  }

  const config = () => ({ responsive: true, displaylogo: false, displayModeBar: false });

  // events ----------------------------------------------------------------------------------

  // A cell is always selected, so that there is always something to look at: the lowest at first.
  function settle() {
    const s = study(), c = s.cells;
    const here = tiles.cells.flat().filter((i) => i !== null && i >= 0);
    if (here.includes(state.cell) || beside(state.cell)) return;
    const done = here.filter((i) => c.runs[i]);
    state.cell = done.length ? done.reduce((a, b) => c.loss[b] < c.loss[a] ? b : a) : here[0] ?? null;
  }

  function draw() {
    fillChoices();
    tiles = layTiles(study());
    settle();
    drawHeatmap();
    if (state.cell !== null) drawCell();
    else { $("cell").textContent = "Nothing was run here."; Plotly.purge("curves"); Plotly.purge("spectra"); }
    drawCompare();
    drawWins();
  }

  function listen() {
    const choose = { study: Number, problem: Number, metric: String, grid: Number, searched: String, architecture: String };
    Object.entries(choose).forEach(([id, as]) => $(id).addEventListener("change", () => {
      state[id] = as($(id).value);
      if (id === "study") state.cell = null;
      draw();
    }));
    ["first", "second"].forEach((id) => $(id).addEventListener("change", () => {
      state[id] = $(id).value;
      drawCompare();
    }));
    document.querySelectorAll("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
    $("wins").addEventListener("click", (event) => {
      const column = event.target.dataset.column;
      if (!column) return;
      state.sort = [column, state.sort[0] === column ? -state.sort[1] : NUMBERS.has(column) && column !== "p" ? -1 : 1];
      drawWins();
    });
    $("heatmap").addEventListener("keydown", move);
    $("heatmap").on("plotly_click", ({ points }) => select(tiles.cells[points[0].y]?.[points[0].x]));
    $("compare").on("plotly_click", ({ points }) => select(points.find((p) => p.customdata !== undefined)?.customdata));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  draw();
  listen();
  document.documentElement.dataset.ready = "yes";
})();
