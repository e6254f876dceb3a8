// A weighting as a mixture of basis functions: what fwshapley.serving.mixtures computes in Python, to 1e-10.
"use strict";

const MOMENT_NODES = 256;

// Gauss-Jacobi rule for t ~ Beta(beta, alpha), from the eigenvalues of its Jacobi matrix.
function quadrature(alpha, beta, nodes = MOMENT_NODES) {
  const diagonal = new Float64Array(nodes);
  const offDiagonal = new Float64Array(nodes);
  diagonal[0] = (beta - alpha) / (alpha + beta);
  for (let k = 1; k < nodes; k++) {
    const degree = 2 * k - 2 + alpha + beta;
    diagonal[k] = ((beta - alpha) / degree) * ((alpha + beta - 2) / (degree + 2));
    const last = k === 1 ? 1 : (k - 2 + alpha + beta) / (degree - 1);
    offDiagonal[k - 1] =
      2 * Math.sqrt((k - 1 + alpha) / degree) * Math.sqrt((((k - 1 + beta) / degree) * k * last) / (degree + 1));
  }
  const first = new Float64Array(nodes);
  first[0] = 1;
  diagonalize(diagonal, offDiagonal, first);
  return {
    t: Array.from(diagonal, (x) => Math.min(Math.max((1 + x) / 2, 0), 1)),
    mass: Array.from(first, (z) => z * z),
  };
}

// Implicit QL: eigenvalues of a symmetric tridiagonal matrix, in place of its diagonal d, and the first entries z of its
// eigenvectors (Golub & Welsch 1969).
function diagonalize(d, e, z) {
  const n = d.length;
  for (let l = 0; l < n; l++) {
    for (;;) {
      let m = l;
      while (m < n - 1 && Math.abs(e[m]) > Number.EPSILON * (Math.abs(d[m]) + Math.abs(d[m + 1]))) m++;
      if (m === l) break;
      let g = (d[l + 1] - d[l]) / (2 * e[l]);
      let r = Math.hypot(g, 1);
      g = d[m] - d[l] + e[l] / (g + (g < 0 ? -r : r));
      let s = 1;
      let c = 1;
      let p = 0;
      for (let i = m - 1; i >= l; i--) {
        const f = s * e[i];
        const b = c * e[i];
        r = Math.hypot(f, g);
        e[i + 1] = r;
        s = r === 0 ? 0 : f / r;
        c = r === 0 ? 1 : g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        const upper = z[i + 1];
        z[i + 1] = s * z[i] + c * upper;
        z[i] = c * z[i] - s * upper;
      }
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
}

const BASES = {
  // Piecewise linear functions of logit t.
  hats(basis, t) {
    const [low, high] = [basis.knots[0], basis.knots[basis.knots.length - 1]];
    const spacing = basis.knots[1] - low;
    const position = Math.min(Math.max(Math.log(t) - Math.log1p(-t), low), high);
    return basis.knots.map((knot) => Math.max(1 - Math.abs(position - knot) / spacing, 0));
  },
  // Lagrange polynomials at Chebyshev points.
  nodes(basis, t) {
    const hit = basis.t.indexOf(t);
    if (hit >= 0) return basis.t.map((_, j) => (j === hit ? 1 : 0));
    const terms = basis.t.map((node, j) => ((j % 2 ? -1 : 1) * Math.sqrt(node * (1 - node))) / (t - node));
    const sum = terms.reduce((total, term) => total + term, 0);
    return terms.map((term) => term / sum);
  },
};

// E[b_j(t)] for t ~ Beta(beta, alpha), in the units of the coefficients.
function mixture(basis, alpha, beta) {
  if (basis.kind === "fixed") return basis.units.slice();
  const { t, mass } = quadrature(alpha, beta);
  const moments = new Array((basis.knots || basis.t).length).fill(0);
  t.forEach((node, k) => {
    BASES[basis.kind](basis, node).forEach((value, j) => (moments[j] += mass[k] * value));
  });
  return moments.map((moment, j) => moment * (basis.units ? basis.units[j] : 1));
}

// Values of every player and output: a dot product of coefficients (players, functions, outputs) with a mixture.
function contract(coefficients, weights) {
  return coefficients.map((functions) =>
    functions[0].map((_, output) => functions.reduce((sum, row, j) => sum + weights[j] * row[output], 0)),
  );
}

// Shift the values of each output to sum to the prediction less the base value.
function makeEfficient(values, predictions, baseValues) {
  const n = values.length;
  const shifts = predictions.map((prediction, output) => {
    const sum = values.reduce((total, row) => total + row[output], 0);
    return (prediction - baseValues[output] - sum) / n;
  });
  return values.map((row) => row.map((value, output) => value + shifts[output]));
}
