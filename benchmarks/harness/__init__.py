"""What experiments share: options, records, statistics, timing, figures."""
