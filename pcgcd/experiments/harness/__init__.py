"""What all experiments share: rows, a journal, one runner, statistics, tables and figures."""
