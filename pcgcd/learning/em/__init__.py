"""Expectation-maximisation for HMMs, in mini-batches and on several processes."""
