-- Change settings of the ring, in seconds and bytes; null leaves one as it is. $1, $2, $3 retention of completed, failed and
-- cancelled jobs, $4 segment_bytes_max, $5 segment_age_max, $6 snapshot_patience,
-- $7 expected_bytes_max. The function says which locks.
select awa.configure_ring(completed_retention => make_interval(secs => $1),
                          failed_retention => make_interval(secs => $2),
                          cancelled_retention => make_interval(secs => $3),
                          segment_bytes_max => $4,
                          segment_age_max => make_interval(secs => $5),
                          snapshot_patience => make_interval(secs => $6),
                          expected_bytes_max => $7) as done
