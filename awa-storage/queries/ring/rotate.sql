-- Advance the ring if $1 is still the current generation. Locks the row of awa.ring.
select awa.rotate($1) as "rotated!"
