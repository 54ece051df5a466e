"""What training queries are told besides their labels: a teacher's scores, mined tools."""
