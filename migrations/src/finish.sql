-- Why: new functions belong to bundles that roles already have, and PUBLIC is given nothing. Safe to run again.
do $finish$
begin
    if to_regprocedure('awa.apply_access()') is not null then
        perform awa.apply_access();
    end if;
end
$finish$;
