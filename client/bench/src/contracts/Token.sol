// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.0;

/// An ERC-20 token as plain as it gets, for measuring: two mappings and the events, nothing else.
///
/// Genesis puts the code in place without running a constructor, so the balances and the supply are written there as
/// slots: `balanceOf` is slot 0, `allowance` slot 1, `totalSupply` slot 2.
contract Token {
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    uint256 public totalSupply;

    string public constant name = "Polytrie Token";
    string public constant symbol = "POLY";
    uint8 public constant decimals = 18;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    function transfer(address to, uint256 value) external returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        allowance[from][msg.sender] -= value;
        move(from, to, value);
        return true;
    }

    function move(address from, address to, uint256 value) private {
        balanceOf[from] -= value;
        // The sum of all balances is the supply, which fits; so does each of them.
        unchecked {
            balanceOf[to] += value;
        }
        emit Transfer(from, to, value);
    }
}
