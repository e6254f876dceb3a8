"""Boosted regression trees on coalitions, and their exact semivalues.

A tree asks at each node whether a player is present. A leaf that takes a players present and b absent is the game
y * 1[all a present, none of the b present], so its semivalues have a closed form under every weighting:

    present player: + y * P(the other a-1 are in the coalition that it joins, and none of the b is)
    absent player:  - y * P(all a are in the coalition that it joins, and none of the other b-1 is)

A player's only feature is its presence, so there are no thresholds: the sums of a level are one matrix product.
Equations: docs/math.md, section 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from fwshapley.semivalues import Semivalue

DEPTH = 5
LEARNING_RATE = 0.1
BAG = 0.5
"""Share of the coalitions that a tree is fitted to: other coalitions for each tree make the sum of trees smoother."""

MIN_LEAF = 5
"""Fewest coalitions on each side of a split."""

SHRINKAGE = 1.0
"""Coalitions of value zero that are added to each leaf."""

LARGEST_PRODUCT = 2**24
"""Most numbers in one factor of the matrix products of a level."""


class BoostedTrees(NamedTuple):
    """A sum of trees for each target; complete trees, whose nodes are in order of level."""

    players: Int[Tensor, "targets trees splits"]
    """Player whose presence leads to the right, or -1 if all coalitions go to the left."""
    leaves: Float64[Tensor, "targets trees leaves"]

    def values(self, weights: Semivalue, n: int) -> Float64[Tensor, "targets {n}"]:
        """Exact semivalues of the sums of trees, as games of n players."""
        targets, _, n_leaves = self.leaves.shape
        node, goes_right = _paths_to_leaves(n_leaves, self.leaves.device)
        player = self.players[:, :, node]  # (targets, trees, leaves, levels)
        is_condition = player >= 0
        present = goes_right & is_condition
        n_present = present.sum(3, keepdim=True)
        n_absent = is_condition.sum(3, keepdim=True) - n_present
        chance = _chances(weights, n, depth=node.shape[1]).to(self.leaves.device)
        joins_leaf = chance[(n_present - 1).clamp(min=0), n_absent]
        leaves_leaf = -chance[n_present, (n_absent - 1).clamp(min=0)]
        shares = self.leaves[..., None] * torch.where(present, joins_leaf, leaves_leaf) * is_condition
        values = self.leaves.new_zeros(targets, n)
        return values.scatter_add_(1, player.clamp(min=0).flatten(1), shares.flatten(1))


def boost(
    coalitions: Bool[Tensor, "rows n"],
    targets: Float64[Tensor, "targets rows"],
    in_training: Bool[Tensor, "targets rows"],
    *,
    n_trees: int,
    paired: bool,
    generator: torch.Generator,
) -> tuple[BoostedTrees, Float64[Tensor, "targets rows"]]:
    """Fit a sum of trees to each target by least squares on its training rows; return its predictions on all rows.

    Args:
        coalitions: the masks; if paired, each is followed by its complement.
        targets: what to predict, independently for each target.
        in_training: rows that each target is fitted to; a pair goes together.
        n_trees: number of trees.
        paired: targets are odd, t(complement of S) = -t(S), and so are the predictions: half the difference of the
            trees' predictions for S and its complement.
        generator: draws the rows of each tree.
    """
    masks = coalitions.double()
    scale = ((targets**2 * in_training).sum(1) / in_training.sum(1)).sqrt()[:, None]
    residuals = torch.where(scale > 0, targets / scale, 0.0)
    n_units = len(coalitions) // (2 if paired else 1)
    players, leaves = [], []
    for _ in range(n_trees):
        bag = torch.rand(n_units, generator=generator, device=generator.device) < BAG
        in_bag = in_training & bag.repeat_interleave(len(coalitions) // n_units)
        tree_players, tree_leaves, leaf = _grow(masks, residuals, in_bag.double())
        prediction = LEARNING_RATE * tree_leaves.gather(1, leaf)
        if paired:
            of_pairs = prediction.unflatten(1, (-1, 2))
            prediction = ((of_pairs - of_pairs.flip(2)) / 2).flatten(1)
        residuals = residuals - prediction
        players.append(tree_players)
        leaves.append(LEARNING_RATE * tree_leaves)
    trees = BoostedTrees(torch.stack(players, 1), torch.stack(leaves, 1) * scale[..., None])
    return trees, torch.where(scale > 0, targets - scale * residuals, 0.0)


def _grow(
    masks: Float64[Tensor, "rows n"],
    residuals: Float64[Tensor, "targets rows"],
    weights: Float64[Tensor, "targets rows"],
) -> tuple[Int[Tensor, "targets splits"], Float64[Tensor, "targets leaves"], Int[Tensor, "targets rows"]]:
    """One tree for each target, level by level: players of splits, values of leaves, and the leaf of each row."""
    terms = torch.stack([residuals * weights, weights], 2)  # sums of these are all that a fit needs
    node = torch.zeros_like(residuals, dtype=torch.int64)
    row = torch.arange(len(masks), device=masks.device)
    players = []
    for level in range(DEPTH):
        of_all, of_present = _sums_by_node(masks, terms, node, 2**level)
        of_absent = of_all[..., None, :] - of_present
        quality = _explained(of_present) + _explained(of_absent)  # (targets, nodes, players)
        too_few = torch.minimum(of_present[..., 1], of_absent[..., 1]) < MIN_LEAF
        best, player = quality.masked_fill(too_few, -math.inf).max(2)
        player = torch.where(best > _explained(of_all), player, -1)
        if not bool((player >= 0).any()):  # nor would there be a split further down
            node = node << (DEPTH - level)
            players.append(player.new_full((len(terms), 2**DEPTH - 2**level), -1))
            break
        players.append(player)
        asked = player.gather(1, node)
        node = 2 * node + ((masks[row, asked.clamp(min=0)] > 0) & (asked >= 0))
    in_leaf = terms.new_zeros(len(terms), 2**DEPTH, 2).scatter_add_(1, node[..., None].expand_as(terms), terms)
    return torch.cat(players, 1), in_leaf[..., 0] / (in_leaf[..., 1] + SHRINKAGE), node


def _sums_by_node(
    masks: Float64[Tensor, "rows n"],
    terms: Float64[Tensor, "targets rows 2"],
    node: Int[Tensor, "targets rows"],
    n_nodes: int,
) -> tuple[Float64[Tensor, "targets nodes 2"], Float64[Tensor, "targets nodes n 2"]]:
    """Sums of the terms over the rows of each node, and over those of them in which each player is present."""
    rows = terms.shape[1]
    chunk = max(LARGEST_PRODUCT // (2 * rows * n_nodes), 1)
    of_all, of_present = [], []
    for part, at in zip(terms.split(chunk), node.split(chunk), strict=True):
        spread = terms.new_zeros(rows, len(part), n_nodes, 2)
        spread.scatter_(2, at.T[:, :, None, None].expand(-1, -1, 1, 2), part.transpose(0, 1)[:, :, None])
        of_all.append(spread.sum(0))
        of_present.append((masks.T @ spread.flatten(1)).unflatten(1, spread.shape[1:]).permute(1, 2, 0, 3))
    return torch.cat(of_all), torch.cat(of_present)


def _explained(sums: Float64[Tensor, "*shape 2"]) -> Float64[Tensor, "*shape"]:
    """Squared residuals that fitting a constant takes away."""
    return sums[..., 0] ** 2 / (sums[..., 1] + SHRINKAGE)


def _paths_to_leaves(
    n_leaves: int, device: torch.device
) -> tuple[Int[Tensor, "{n_leaves} levels"], Bool[Tensor, "{n_leaves} levels"]]:
    """Nodes on the way to each leaf of a complete tree, and whether the way goes to the right there."""
    depth = n_leaves.bit_length() - 1
    leaf = torch.arange(n_leaves, device=device)[:, None]
    level = torch.arange(depth, device=device)
    node = 2**level - 1 + (leaf >> (depth - level))
    return node, (leaf >> (depth - 1 - level)) & 1 == 1


def _chances(weights: Semivalue, n: int, depth: int) -> Float64[Tensor, "{depth}+1 {depth}+1"]:
    """P(a given others are in the coalition that a player joins and b given others are not), for all a and b."""
    chances = torch.zeros(depth + 1, depth + 1, dtype=torch.float64)
    of_members = weights.membership_law(n, depth)  # of a + b others, a are in it, whichever they are
    for a in range(depth + 1):
        for b in range(min(depth + 1, n - a)):
            chances[a, b] = of_members[a + b, a] / math.comb(a + b, a)
    return chances
