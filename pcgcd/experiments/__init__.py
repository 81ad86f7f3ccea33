"""The paper's experiments, each a module that computes, prints and draws its numbers."""
