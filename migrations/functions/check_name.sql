-- Refuse a text that cannot be the name of a queue, kind or tag, as Rust refuses it.
--   p_what  what the name is for, as errors call it
-- Reads and locks nothing.
create or replace function awa.check_name(p_what text, p_name text) returns void
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    bytes_max constant integer := 128;
    -- U+0000 cannot be in a text.
    control   constant text := '[\u0001-\u001f\u007f-\u009f]';
    bytes     integer := octet_length(p_name);
    found_one text;
    shown     text;
begin
    if p_name is null or bytes = 0 then
        raise exception '% is %; it must have 1 to % bytes', p_what,
                case when p_name is null then 'null' else 'empty' end, bytes_max
            using errcode = 'invalid_parameter_value';
    end if;
    if bytes > bytes_max then
        raise exception '% `%…` has % bytes; it must have 1 to %',
                p_what, left(regexp_replace(p_name, control, '', 'g'), 32), bytes, bytes_max
            using errcode = 'invalid_parameter_value';
    end if;
    found_one := substring(p_name from control);
    if found_one is not null then
        shown := replace(replace(replace(replace(replace(
                 p_name, '\', '\\'), '"', '\"'), E'\n', '\n'), E'\r', '\r'), E'\t', '\t');
        while shown ~ control loop
            shown := replace(shown, substring(shown from control),
                             format('\u{%s}', to_hex(ascii(substring(shown from control)))));
        end loop;
        raise exception '% "%" has the control character U+% at byte %; none are allowed', p_what, shown,
                lpad(upper(to_hex(ascii(found_one))), 4, '0'),
                octet_length(left(p_name, strpos(p_name, found_one) - 1))
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;
