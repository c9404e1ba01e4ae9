-- Part of the Lua shims: whether a comment has one of the keys that concern us, wherever the
-- job goes.
local KEYS = { capacity_reservation_id = true, instance_type = true, subnet_id = true }

return function(comment)
  for word in comment:gmatch("[^%s,]+") do
    if KEYS[word:match("^([%l_]+)=")] then return true end
  end
  return false
end
